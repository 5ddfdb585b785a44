package goredis

import (
	"context"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis"
)

// ConfigLife is how long a server keeps the configuration of a quorum after it
// was probed last. Clients probe once a minute, so that it outlives their leases
// by far if these are shorter than a day.
const ConfigLife = 24 * time.Hour

// keepConfig writes the configuration KEYS[1] if there is none, lets it live for
// ARGV[2] ms more if it is ARGV[1], and returns the one that is there. Another is
// left to end by itself, when those who wrote it have been gone for long enough.
const keepConfig = `local config = redis.call('GET', KEYS[1]) or ARGV[1]
if config == ARGV[1] then redis.call('SET', KEYS[1], config, 'PX', ARGV[2]) end
return config`

// Probe returns what a quorum asks the server of rdb to find out whether it may
// be one of its nodes. It is the Probe of a quorum.Node:
//
//	quorum.Node{Name: addr, Backend: goredis.New(rdb), Probe: goredis.Probe(rdb)}
//
// The server tells its run ID, by which the same server under two names is
// found, and whether it is a replica or a part of a cluster. What is neither
// keeps the configuration of the quorum that asked first, as the string
// pawl.quorum:lock: for [ConfigLife], renewed by each probe of a client with the
// same one. Clients with other nodes or another MaxTTL are then refused. To
// change either, stop all clients, wait for MaxTTL, and delete that key on all
// servers.
//
// A server that can't be asked is an error, which says nothing of what it is.
func Probe(rdb goredis.UniversalClient) func(ctx context.Context, config string) (driver.Facts, error) {
	return ProbePrefix(rdb, redis.DefaultPrefix)
}

// ProbePrefix is [Probe] for locks under another prefix than the default. Quorums
// under different prefixes may share servers: their configurations are kept
// apart, as pawl.quorum: and the prefix.
func ProbePrefix(rdb goredis.UniversalClient, prefix string) func(ctx context.Context, config string) (driver.Facts, error) {
	if rdb == nil {
		panic("goredis: the client is nil")
	}
	return func(ctx context.Context, config string) (driver.Facts, error) {
		switch rdb.(type) {
		case *goredis.ClusterClient, *goredis.Ring:
			return driver.Facts{Cluster: true}, nil // whichever of its servers one would ask
		}
		info, err := rdb.Info(ctx, "server", "replication", "cluster").Result()
		if err != nil {
			return driver.Facts{}, fmt.Errorf("probe: %w", err)
		}
		f := driver.Facts{
			Server:  infoField(info, "run_id"),
			Replica: infoField(info, "role") != "master",
			Cluster: infoField(info, "cluster_enabled") == "1",
		}
		if f.Server == "" {
			return driver.Facts{}, fmt.Errorf("%w: probe: the server does not tell its run ID", driver.ErrUnsupported)
		}
		if f.Replica || f.Cluster {
			return f, nil
		}
		f.Config, err = rdb.Eval(ctx, keepConfig, []string{"pawl.quorum:" + prefix}, config, ConfigLife.Milliseconds()).Text()
		if err != nil {
			return driver.Facts{}, fmt.Errorf("probe: %w", err)
		}
		return f, nil
	}
}

// infoField returns a field of the answer to INFO.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
