package etcd

import (
	"encoding/json"
	"math"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl/driver"
)

// version stands in every record. It changes when clients of the old version and
// of the new could both believe that they hold a lock.
const version = 1

// A record is the value of a claim's key.
type record struct {
	Version  int    `json:"pawl"`
	ID       string `json:"id"`
	Label    string `json:"label,omitempty"`
	Weight   int    `json:"weight"`
	Capacity int    `json:"capacity"`
	TTL      int64  `json:"ttl"`             // in seconds, as it was asked for
	Held     bool   `json:"held,omitempty"`  // otherwise it waits
	Kept     bool   `json:"kept,omitempty"`  // its holder has let go of it
	Token    uint64 `json:"token,omitempty"` // of a holder; 0: the revision that last changed the key
	At       int64  `json:"at"`              // since when it is held or waits, in µs since 1970, on the clock of its client
}

// An entry is a claim that stands in line.
type entry struct {
	record
	key     string
	create  int64 // revision, and so the place in line
	mod     int64 // revision
	lease   clientv3.LeaseID
	foreign bool // written by another program: an exclusive claim, its ID the end of its key
}

// entryOf reads what stands in a key below a lock, and returns false if it is no
// claim. A claim of the concurrency package is known by its lease, which its key
// is named after, whatever its value.
func entryOf(kv *mvccpb.KeyValue, lock, last string) (entry, bool) {
	e := entry{
		key:    string(kv.Key),
		create: kv.CreateRevision,
		mod:    kv.ModRevision,
		lease:  clientv3.LeaseID(kv.Lease),
	}
	if json.Unmarshal(kv.Value, &e.record) == nil && e.Version == version && last == hex(leaseID(lock, e.ID)) {
		return e, true
	}
	e.foreign = true
	e.record = record{ID: last, Weight: 1, Capacity: 1}
	return e, kv.Lease != 0 && last == hex(e.lease)
}

// token returns the fencing token of a holder, 0 if e waits.
func (e entry) token() uint64 {
	switch {
	case !e.Held:
		return 0
	case e.Token != 0:
		return e.Token
	}
	return uint64(e.mod)
}

// recordOf returns the record of a claim that comes now.
func recordOf(c driver.Claim) record {
	return record{
		Version: version, ID: c.ID, Label: c.Label, Weight: c.Weight, Capacity: c.Capacity,
		TTL: seconds(c.TTL), At: time.Now().UnixMicro(),
	}
}

func (r record) encode() string {
	b, _ := json.Marshal(r) // has nothing that can't be
	return string(b)
}

// seconds rounds up to what etcd counts in, and no further than it counts.
func seconds(d time.Duration) int64 {
	const most = 9_000_000_000
	return min(int64(math.Ceil(d.Seconds())), most)
}

// age returns how long a claim has been there, by the clock of whoever wrote it.
func (r record) age(now time.Time) time.Duration {
	if r.At == 0 {
		return -1
	}
	return max(0, now.Sub(time.UnixMicro(r.At)))
}

// A notice is the value of a notice's key.
type notice struct {
	ID    string `json:"id"`
	Force bool   `json:"force,omitempty"`
	By    string `json:"by"`
	Why   string `json:"why,omitempty"`
	At    int64  `json:"at"` // in µs since 1970, on the clock of whoever left it
}

func noticeOf(kvs []*mvccpb.KeyValue) *driver.Notice {
	var n notice
	if len(kvs) == 0 || json.Unmarshal(kvs[0].Value, &n) != nil {
		return nil
	}
	return n.told()
}

// told is the notice as the core knows it.
func (n notice) told() *driver.Notice {
	return &driver.Notice{Force: n.Force, By: n.By, Why: n.Why, At: time.UnixMicro(n.At)}
}
