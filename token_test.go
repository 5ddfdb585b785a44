package pawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/memory"
)

func TestATokenIsText(t *testing.T) {
	for _, c := range []struct {
		token pawl.Token
		text  string
	}{
		{pawl.Token{Key: "deploy", Number: 1795961589956265}, "deploy:x:1795961589956265"},
		{pawl.Token{Key: "deploy", Shared: true, Number: 1}, "deploy:s:1"},
		{pawl.Token{Key: "a:x:7", Number: 8}, "a:x:7:x:8"},
		{pawl.Token{Key: ":", Number: 8}, "::x:8"},
		{pawl.Token{Key: " \n%", Number: 18446744073709551615}, " \n%:x:18446744073709551615"},
	} {
		if got := c.token.String(); got != c.text {
			t.Errorf("String of %+v: got %q, want %q", c.token, got, c.text)
		}
		if got, err := pawl.ParseToken(c.text); got != c.token || err != nil {
			t.Errorf("ParseToken of %q: got %+v, %v, want %+v", c.text, got, err, c.token)
		}
	}
}

func TestWhatIsNoTokenIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "deploy", "deploy:17", "x:17", "deploy:17:x", "deploy:y:17", "deploy:X:17", "deploy:xs:17", "deploy::17", ":x:17",
		"deploy:x:", "deploy:x:0", "deploy:x:017", "deploy:x:+17", "deploy:x:-17", "deploy:x:17 ", "deploy:x: 17", "deploy:x:1_7", "deploy:x:1e3", "deploy:x:0x1",
		"deploy:x:18446744073709551616", "\xff:x:17", strings.Repeat("k", 64<<10+1) + ":x:17",
	} {
		got, err := pawl.ParseToken(text)
		if field := new(pawl.FieldError); !errors.As(err, &field) {
			t.Errorf("ParseToken of %.20q: got %+v, %v, want a FieldError", text, got, err)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add("deploy", false, uint64(17), "deploy:x:17")
	f.Add("a:s:1", true, uint64(1), "a:s:1:x:017")
	f.Fuzz(func(t *testing.T, key string, shared bool, number uint64, text string) {
		token := pawl.Token{Key: key, Shared: shared, Number: number}
		back, err := pawl.ParseToken(token.String())
		if valid := token.Validate(); (valid == nil) != (err == nil) {
			t.Fatalf("%+v: Validate says %v, ParseToken %v", token, valid, err)
		}
		if err == nil && back != token {
			t.Fatalf("%+v came back as %+v", token, back)
		}
		if parsed, err := pawl.ParseToken(text); err == nil && parsed.String() != text {
			t.Fatalf("%q is the text of %+v, whose text is %q", text, parsed, parsed)
		}
	})
}

func TestTokensOfOneLockHaveAnOrder(t *testing.T) {
	a, b := pawl.Token{Key: "a", Number: 9}, pawl.Token{Key: "a", Shared: true, Number: 10}
	for _, c := range []struct {
		t, u pawl.Token
		want int
	}{{a, b, -1}, {b, a, 1}, {a, a, 0}} {
		if got, err := c.t.Compare(c.u); got != c.want || err != nil {
			t.Errorf("%s compared with %s: got %d, %v, want %d", c.t, c.u, got, err, c.want)
		}
	}
	if got, err := a.Compare(pawl.Token{Key: "b", Number: 10}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("tokens of different locks: got %d, %v, want ErrInvalid", got, err)
	}
}

// Case R04: whatever is granted carries a token.
func TestTheContextOfALeaseCarriesItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := pawl.New(memory.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx := t.Context()
		if got, ok := pawl.TokenFromContext(ctx); ok {
			t.Errorf("without a lease: got %s, want none", got)
		}
		for _, c := range []struct {
			lock   *pawl.Lock
			shared bool
		}{{client.Mutex("m"), false}, {client.ReadLock("rw"), true}, {client.WriteLock("rw"), false}, {client.Semaphore("s", 3), true}} {
			err := c.lock.Do(ctx, func(ctx context.Context, lease *pawl.Lease) error {
				want := pawl.Token{Key: c.lock.Key(), Shared: c.shared, Number: lease.Token()}
				if err := want.Validate(); err != nil {
					t.Error(err)
				}
				for name, ctx := range map[string]context.Context{"Do": ctx, "Context": lease.Context()} {
					if got, ok := pawl.TokenFromContext(ctx); got != want || !ok {
						t.Errorf("the context of %s: got %+v, %t, want %+v", name, got, ok, want)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTheInnermostTokenCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := pawl.New(memory.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		foreign := pawl.Token{Key: "elsewhere", Number: 3}
		err = client.Mutex("outer").Do(pawl.ContextWithToken(t.Context(), foreign), func(ctx context.Context, outer *pawl.Lease) error {
			if got, _ := pawl.TokenFromContext(ctx); got != pawl.TokenOf(outer) {
				t.Errorf("a lease under a given token: got %s, want %s", got, pawl.TokenOf(outer))
			}
			if got, _ := pawl.TokenFromContext(pawl.ContextWithToken(ctx, foreign)); got != foreign {
				t.Errorf("a given token under a lease: got %s, want %s", got, foreign)
			}
			return client.Mutex("inner").Do(ctx, func(ctx context.Context, inner *pawl.Lease) error {
				if got, _ := pawl.TokenFromContext(ctx); got != pawl.TokenOf(inner) {
					t.Errorf("a lease under a lease: got %s, want %s", got, pawl.TokenOf(inner))
				}
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
}
