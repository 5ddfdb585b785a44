package testserver

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
)

// A Cluster is a Redis Cluster.
type Cluster struct {
	Nodes []*Redis // the masters, then the replicas of each

	t testing.TB
}

// ClusterOptions say how a cluster is started.
type ClusterOptions struct {
	Masters  int // default 3
	Replicas int // of each master
	Node     RedisOptions
}

// slots is how many a cluster has.
const slots = 16384

// StartCluster starts a cluster, and waits until each node says that it is whole
// and each replica follows its master. That takes two seconds.
func StartCluster(t testing.TB, o ClusterOptions) *Cluster {
	t.Helper()
	Require(t, "redis", Program())
	if o.Masters == 0 {
		o.Masters = 3
	}
	n := o.Masters * (1 + o.Replicas)
	c := &Cluster{t: t, Nodes: make([]*Redis, n)}
	addrs := freeAddrs(t, 2*n)
	bus := func(i int) string { _, port, _ := net.SplitHostPort(addrs[n+i]); return port }
	for i := range c.Nodes {
		node := o.Node
		node.Args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", bus(i),
			"--cluster-config-file", "nodes.conf", "--repl-diskless-sync-delay", "0"}, node.Args...)
		c.Nodes[i] = newRedis(t, addrs[i], node)
		c.Nodes[i].launch()
	}
	for _, r := range c.Nodes {
		r.await()
	}
	for i, r := range c.Nodes {
		r.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < o.Masters {
			r.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/o.Masters, (i+1)*slots/o.Masters-1)
		}
		host, port, _ := net.SplitHostPort(r.Addr)
		c.Nodes[0].Do("CLUSTER", "MEET", host, port, bus(i))
	}
	for _, r := range c.Nodes {
		poll(t, "node "+r.Addr+" knows the others", func() error { return r.says("CLUSTER", "INFO", "cluster_known_nodes:"+strconv.Itoa(n)) })
	}
	for i, r := range c.Nodes[o.Masters:] {
		master := c.Nodes[i/o.Replicas].Do("CLUSTER", "MYID")
		poll(t, "node "+r.Addr+" knows its master", func() error { _, err := r.Try("CLUSTER", "REPLICATE", master); return err })
	}
	for i, r := range c.Nodes {
		poll(t, "the cluster is whole for "+r.Addr, func() error { return r.says("CLUSTER", "INFO", "cluster_state:ok") })
		if i >= o.Masters {
			poll(t, r.Addr+" follows its master", func() error { return r.says("INFO", "replication", "master_link_status:up") })
		}
	}
	return c
}

// says returns an error unless the server's answer to a command with one argument
// has want in it.
func (r *Redis) says(command, arg, want string) error {
	v, err := r.Try(command, arg)
	if err != nil {
		return err
	}
	if text, _ := v.(string); !strings.Contains(text, want+"\r\n") {
		return fmt.Errorf("want %s in %s", want, text)
	}
	return nil
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, r := range c.Nodes {
		addrs = append(addrs, r.Addr)
	}
	return addrs
}

// Slot returns the slot of key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	return int(c.Nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64))
}

// Master returns the node that has key, as the nodes that are up see it.
func (c *Cluster) Master(key string) *Redis {
	c.t.Helper()
	slot := int64(-1)
	var found *Redis
	poll(c.t, "the master of "+key, func() error {
		for _, r := range c.Nodes {
			if slot < 0 {
				v, err := r.Try("CLUSTER", "KEYSLOT", key)
				if err != nil {
					continue
				}
				slot = v.(int64)
			}
			// One that has been deposed and does not know yet says so too.
			id, err := r.Try("CLUSTER", "MYID")
			if err != nil {
				continue
			}
			ranges, err := r.Try("CLUSTER", "SLOTS")
			if err != nil {
				continue
			}
			for _, v := range ranges.([]any) {
				v := v.([]any)
				if v[0].(int64) <= slot && slot <= v[1].(int64) && v[2].([]any)[2] == id {
					found = r
					return nil
				}
			}
		}
		return fmt.Errorf("no node has slot %d", slot)
	})
	return found
}

// Replica returns a node that follows r.
func (c *Cluster) Replica(r *Redis) *Redis {
	c.t.Helper()
	id := r.Do("CLUSTER", "MYID").(string)
	for _, o := range c.Nodes {
		nodes, err := o.Try("CLUSTER", "NODES")
		if err != nil {
			continue
		}
		for line := range strings.Lines(nodes.(string)) {
			if f := strings.Fields(line); len(f) > 3 && strings.Contains(f[2], "myself") && f[3] == id {
				return o
			}
		}
	}
	c.t.Fatalf("nobody follows %s", r.Addr)
	return nil
}

// BeginMove makes from migrate slot and to import it: from there on what from
// has of the slot stays, and what is new goes to the other.
func (c *Cluster) BeginMove(slot int, from, to *Redis) {
	c.t.Helper()
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do("CLUSTER", "MYID"))
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID"))
}

// EndMove moves all keys of slot, and then the slot. Other nodes hear of it by
// and by.
func (c *Cluster) EndMove(slot int, from, to *Redis) {
	c.t.Helper()
	host, port, _ := net.SplitHostPort(to.Addr)
	for {
		keys := from.Do("CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		from.Do(append([]any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}, keys...)...)
	}
	id := to.Do("CLUSTER", "MYID")
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
	from.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
}

// Promote makes the replica r a master, without asking its own, and waits.
func (c *Cluster) Promote(r *Redis, how ...any) {
	c.t.Helper()
	r.Do(append([]any{"CLUSTER", "FAILOVER"}, how...)...)
	poll(c.t, r.Addr+" is a master", func() error { return r.says("INFO", "replication", "role:master") })
}
