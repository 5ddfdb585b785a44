package goredis

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"
)

// Sharded implements redis.Node.
func (n *node) Sharded() bool { return n.cluster != nil }

// Home implements redis.Node.
func (n *node) Home(ctx context.Context, name string) (string, error) {
	if n.cluster == nil {
		return "", nil
	}
	master, err := n.cluster.MasterForKey(ctx, name)
	if err != nil {
		return "", err
	}
	return master.Options().Addr, nil
}

// doubt has the map of the cluster drawn anew after an error that a server sent
// which may not have the key any more, or that says that there is no server.
// go-redis does so after a redirection only, and in the commands that it repeats:
// a cluster whose master has died would not be found for a minute.
func (n *node) doubt(err error) {
	if err == nil || n.cluster == nil || errors.Is(err, context.Canceled) {
		return
	}
	var sent goredis.Error
	if errors.As(err, &sent) && !goredis.IsClusterDownError(err) && !goredis.IsReadOnlyError(err) && !goredis.IsMasterDownError(err) {
		if _, moved := goredis.IsMovedError(err); !moved {
			return
		}
	}
	n.reload()
}

// reload has the map of the cluster drawn anew, soon, in the background.
func (n *node) reload() {
	if n.cluster != nil {
		n.cluster.ReloadState(context.Background())
	}
}
