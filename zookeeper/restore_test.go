package zookeeper_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

// A copy of a server's data is put back: its tokens go on from then, and repeat what
// was granted since. What was held then is again, until its session ends.
func TestARestoreSetsTokensBack(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	a := newUser(t, server.Addr)
	before := a.take(a.mutex("old", 20*time.Second))
	server.Kill()
	backup := copies(t, server)
	server.Start()
	var last driver.Claim
	for range 5 {
		last = a.await(t.Context(), a.mutex("k", 20*time.Second))
		if err := a.Release(t.Context(), last); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Release(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	putBack(t, server, backup)
	server.Start()
	b := newUser(t, server.Addr)
	next := b.await(t.Context(), b.mutex("k", 20*time.Second))
	if next.Grant.Token > last.Grant.Token {
		t.Errorf("token after the restore: got %d, more than %d before: the documents warn of less", next.Grant.Token, last.Grant.Token)
	}
	if held := b.refuse(b.mutex("old", 20*time.Second)); held.Holder.ID != before.ID {
		t.Errorf("what was released after the copy: held by %q, want %q again", held.Holder.ID, before.ID)
	}
}

// On an ensemble an epoch that no server has ever had keeps tokens rising over a
// restore: each election begins one above what a majority has accepted, and an epoch
// is the upper half of a token.
func TestAnEpochKeepsTokensRisingOverARestore(t *testing.T) {
	t.Parallel()
	servers := ensemble(testserver.StartZooKeeper(t, 3))
	a := newUser(t, servers[0].Addr, servers[1].Addr, servers[2].Addr)
	a.await(t.Context(), a.mutex("k", 20*time.Second))
	all := func(do func(*testserver.ZooKeeper)) {
		for _, s := range servers {
			do(s)
		}
	}
	start := func() { // none serves alone
		done := make(chan struct{})
		for _, s := range servers {
			go func() { s.Start(); done <- struct{}{} }()
		}
		for range servers {
			<-done
		}
	}
	all((*testserver.ZooKeeper).Kill)
	backups := make(map[*testserver.ZooKeeper]string)
	all(func(s *testserver.ZooKeeper) { backups[s] = copies(t, s) })
	start() // with an epoch of its own, which the copies don't know
	last := a.await(t.Context(), a.mutex("later", 20*time.Second))
	all((*testserver.ZooKeeper).Kill)
	all(func(s *testserver.ZooKeeper) {
		putBack(t, s, backups[s])
		if err := os.WriteFile(filepath.Join(s.Data, "version-2", "acceptedEpoch"), []byte("1000"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	start()
	b := newUser(t, servers[0].Addr, servers[1].Addr, servers[2].Addr)
	next := b.await(t.Context(), b.mutex("later", 20*time.Second))
	if next.Grant.Token <= last.Grant.Token || next.Grant.Token>>32 < 1001 {
		t.Errorf("token after the restore: got %d of the epoch %d, want more than %d, and an epoch above 1000", next.Grant.Token, next.Grant.Token>>32, last.Grant.Token)
	}
}

// copies returns a copy of what a server that is down has on its disk.
func copies(t *testing.T, server *testserver.ZooKeeper) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(server.Data, "version-2"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// putBack makes a copy what the server has.
func putBack(t *testing.T, server *testserver.ZooKeeper, backup string) {
	t.Helper()
	dir := filepath.Join(server.Data, "version-2")
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(backup))); err != nil {
		t.Fatal(fmt.Errorf("restore: %w", err))
	}
}
