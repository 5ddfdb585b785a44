module github.com/pawlock/pawl/zookeeper

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/pawlock/pawl v0.0.0
)

replace github.com/pawlock/pawl => ..
