package driver

// Facts are what a server says of itself, to those who have to know whether it
// is independent of others. What is unknown is empty.
type Facts struct {
	Server  string // identifies the running server; a restart may change it
	Replica bool   // it follows another server
	Cluster bool   // it is a part of a cluster, which moves keys to other servers
	Config  string // the configuration that it was first asked to keep, see quorum.Node
}
