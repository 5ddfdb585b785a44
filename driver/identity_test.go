package driver_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/pawlock/pawl/driver"
)

// Cases C05, Q02.
func TestIdentityNeverRepeatsAnID(t *testing.T) {
	const clients, goroutines, each = 4, 4, 250
	var (
		mu   sync.Mutex
		seen = make(map[string]bool)
		all  sync.WaitGroup
	)
	for range clients {
		i := driver.NewIdentity("same") // the label is no part of what tells clients apart
		for range goroutines {
			all.Go(func() {
				for range each {
					id := i.Next()
					mu.Lock()
					if seen[id] {
						t.Errorf("Next: got %q a second time", id)
					}
					seen[id] = true
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	if got, want := len(seen), clients*goroutines*each; got != want {
		t.Errorf("got %d IDs, want %d", got, want)
	}
}

func TestParseIDTakesApartWhatIdentityMakes(t *testing.T) {
	for _, label := range []string{"", "host:1", "a/b", "a/b.c/", "~", "with space", "日本", strings.Repeat("x", 512)} {
		i := driver.NewIdentity(label)
		first, ok := driver.ParseID(i.Next())
		if !ok || first.Label != label || first.Tail != "1" {
			t.Errorf("label %q: got %+v, %v, want it and the tail 1", label, first, ok)
		}
		second, ok := driver.ParseID(i.Next() + "~3")
		if !ok || second.Client != first.Client || second.Tail != "2~3" {
			t.Errorf("label %q: got %+v, %v, want the client %s and the tail 2~3", label, second, ok, first.Client)
		}
	}
}

func TestParseIDRefusesWhatIsNotOurs(t *testing.T) {
	nonce := strings.Repeat("0f", 16)
	for _, s := range []string{
		"", "/", ".", "me", "42", nonce, nonce + ".1", // no label's slash
		"a/" + nonce, "a/" + nonce + ".", "a/" + nonce + ".x", "a/" + nonce + ".1 ", "a/" + nonce + ".-1",
		"a/" + nonce[1:] + ".1", "a/" + nonce + "0.1", "a/" + strings.ToUpper(nonce) + ".1", "a/" + nonce[2:] + "zz.1",
		"a/" + nonce + "/1", "a/." + nonce + ".1",
	} {
		if id, ok := driver.ParseID(s); ok {
			t.Errorf("ParseID(%q): got %+v, want no ID", s, id)
		}
	}
}

// What can be parsed can be put together again, so that two strings are never
// the same ID.
func FuzzParseID(f *testing.F) {
	for _, s := range []string{"", "a/b", "/" + strings.Repeat("0", 32) + ".1", "l/a/" + strings.Repeat("9f", 16) + ".12~3", "x/" + strings.Repeat("0", 32) + ".~"} {
		f.Add(s)
	}
	f.Add(driver.NewIdentity("host:1").Next())
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := driver.ParseID(s)
		if !ok {
			if id != (driver.ID{}) {
				t.Errorf("ParseID(%q): got %+v beside false", s, id)
			}
			return
		}
		if again := id.Label + "/" + id.Client + "." + id.Tail; again != s {
			t.Errorf("ParseID(%q): got %+v, which makes %q", s, id, again)
		}
		if len(id.Client) != 32 || id.Tail == "" || strings.ContainsAny(id.Tail, "./") {
			t.Errorf("ParseID(%q): got %+v", s, id)
		}
	})
}
