package file_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/file"
)

// heldRecord returns the path and content of a record with a holder.
func heldRecord(t *testing.T, m *machine, dir string) (path string, image []byte, held driver.Claim) {
	t.Helper()
	held = mutex("k", "a")
	held.Grant = acquire(t, m.open(t, dir), held)
	path = filepath.Join(dir, file.RecordName("k"))
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, image, held
}

func TestDamagedRecordNeverGrantsAgain(t *testing.T) {
	dir := t.TempDir()
	m := newMachine("boot")
	path, image, held := heldRecord(t, m, dir)
	b := m.open(t, dir)
	end := bytes.LastIndexByte(bytes.TrimRight(image, "\n"), '}') + 2 // beyond it is only filling
	refused := 0
	try := func(what string, at int, damaged []byte) {
		t.Helper()
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := b.Acquire(t.Context(), mutex("k", "b"))
		var damage *file.DamageError
		switch {
		case errors.Is(err, driver.ErrHeld): // an old body, which does not count, was hit
		case errors.As(err, &damage) && damage.Path == path && errors.Is(err, driver.ErrRefused):
			refused++
		default:
			t.Fatalf("byte %d of %d %s: got %v, want a DamageError or ErrHeld", at, end, what, err)
		}
	}
	for i := range end {
		try("is where it was cut", i, image[:i])
		flipped := bytes.Clone(image)
		flipped[i] ^= 1 << (i % 8)
		try("has a flipped bit", i, flipped)
	}
	try("is zero, as all others", 0, make([]byte, len(image)))
	if refused < 2*512 {
		t.Errorf("damage that was noticed: got %d, want at least all of the header", refused)
	}
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Renew(t.Context(), held); err != nil {
		t.Errorf("Renew with the record restored: %v", err)
	}
}

func TestDamageStopsEveryOperationAndSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	m := newMachine("boot")
	path, image, held := heldRecord(t, m, dir)
	b := m.open(t, dir)
	if err := os.WriteFile(path, image[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	_, inspected := b.Inspect(t.Context(), "k", 1)
	var listed error
	for _, err := range b.List(t.Context(), "") {
		listed = err
	}
	for what, err := range map[string]error{
		"Acquire": second(b.Acquire(t.Context(), held)),
		"Renew":   second(b.Renew(t.Context(), held)),
		"Release": b.Release(t.Context(), held),
		"Revoke":  b.Revoke(t.Context(), "k", "a", driver.Notice{Force: true}),
		"Wait":    b.Wait(t.Context(), held, nil),
		"Inspect": inspected,
		"List":    listed,
	} {
		var damage *file.DamageError
		if !errors.As(err, &damage) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "mv ") {
			t.Errorf("%s: got %v, want a DamageError with the file and the way out", what, err)
		}
	}

	m.sleep(held.TTL)
	if err := os.Rename(path, filepath.Join(dir, "damaged-"+filepath.Base(path))); err != nil {
		t.Fatal(err)
	}
	if g := acquire(t, b, mutex("k", "b")); g.Token <= held.Grant.Token {
		t.Errorf("token after the record was moved away: got %d, want more than %d", g.Token, held.Grant.Token)
	}
	for h, err := range b.List(t.Context(), "") {
		if err != nil || h.ID != "b" {
			t.Errorf("List: got %+v, %v, want b alone", h, err)
		}
	}
}

// The header counts the tokens, so that a body which the power took with it is
// not missed once its claims have ended with the boot.
func TestBodyLostWithThePowerCostsNoToken(t *testing.T) {
	dir := t.TempDir()
	path, image, held := heldRecord(t, newMachine("first"), dir)
	copy(image[512:], make([]byte, len(image)-512))
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	after := newMachine("second")
	after.stepWall(-1000 * 1000 * 1000)
	if g := acquire(t, after.open(t, dir), mutex("k", "b")); g.Token <= held.Grant.Token {
		t.Errorf("token after the power came back: got %d, want more than %d", g.Token, held.Grant.Token)
	}
}

func TestRecordOfAnotherKeyIsRefused(t *testing.T) {
	dir := t.TempDir()
	path, image, _ := heldRecord(t, newMachine("boot"), dir)
	other := filepath.Join(filepath.Dir(path), file.RecordName("other"))
	if err := os.WriteFile(other, image, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newMachine("boot").open(t, dir).Acquire(context.Background(), mutex("other", "b"))
	var damage *file.DamageError
	if !errors.As(err, &damage) || !strings.Contains(err.Error(), `"k"`) {
		t.Errorf("Acquire on a copied record: got %v, want a DamageError that names its key", err)
	}
}

// It can be neither opened nor made anew. Whoever tries must be told, and not
// go on trying.
func TestLinkToNothingInPlaceOfARecordIsRefused(t *testing.T) {
	for _, name := range []string{file.RecordName("k"), file.FloorName} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.Symlink(filepath.Join(dir, "nothing"), path); err != nil {
			t.Skipf("needs symbolic links: %v", err)
		}
		_, err := newMachine("boot").open(t, dir).Acquire(t.Context(), mutex("k", "a"))
		var damage *file.DamageError
		if !errors.As(err, &damage) || damage.Path != path {
			t.Errorf("Acquire with %s a link to nothing: got %v, want a DamageError that names it", name, err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, file.NewPrefix+"*")); err != nil || len(left) > 0 {
			t.Errorf("files left: got %v, %v, want none", left, err)
		}
	}
}

// A process that is killed while it writes has written some of the new body
// beside the old one, and maybe the header after it.
func TestKilledWriterLeavesTheRecordBeforeOrAfter(t *testing.T) {
	dir := t.TempDir()
	m := newMachine("boot")
	path, before, held := heldRecord(t, m, dir)
	b := m.open(t, dir)
	if err := b.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) {
		t.Fatalf("the record grew from %d to %d bytes: the test expects it in place", len(before), len(after))
	}
	if bytes.Equal(before[512:], after[512:]) {
		t.Fatal("the release changed no body")
	}
	image := bytes.Clone(before)
	holders := func() int {
		t.Helper()
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := b.Inspect(t.Context(), "k", driver.Unlimited)
		if err != nil {
			t.Fatal(err)
		}
		return len(st.Holders)
	}
	for i := 512; i < len(image); i++ {
		if image[i] == after[i] {
			continue
		}
		image[i] = after[i]
		if got := holders(); got != 1 {
			t.Fatalf("with the new body written up to byte %d: got %d holders, want 1", i, got)
		}
	}
	copy(image, after[:512])
	if got := holders(); got != 0 {
		t.Errorf("with all of it written: got %d holders, want 0", got)
	}
}
