package etcd

import (
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Held returns a condition for a transaction on the same etcd that is true while
// the hold is in the store: what it guards is written by the holder or not at
// all, however late the request arrives. Key and holder are those of the lease:
//
//	resp, err := client.Txn(ctx).
//		If(etcd.Held(lease.Key(), lease.Holder(), nil)).
//		Then(clientv3.OpPut("invoice/42", "paid")).
//		Commit()
//
// The transaction has not been made if resp.Succeeded is false: the lease is
// lost. There is no need to compare tokens then; a resource outside of etcd takes
// those. The options are those that the backend was made with.
//
// The condition is on a key that no other hold ever has. It stays true after a
// release with a minimum hold (pawl.Options.MinHold) until that has ended.
func Held(key, holder string, o *Options) clientv3.Cmp {
	if o == nil {
		o = new(Options)
	}
	return clientv3.Compare(clientv3.CreateRevision(names{o.Prefix}.claim(key, holder)), ">", 0)
}
