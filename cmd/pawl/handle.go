package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/driver"
)

// A handle is all that is needed to renew or release a claim from another
// process. Its text is opaque to users.
type handle struct {
	Store    string `json:"s"` // for messages
	Key      string `json:"k"`
	ID       string `json:"i"`
	Label    string `json:"l"`
	Weight   int    `json:"w"`
	Capacity int    `json:"c"`
	TTL      int64  `json:"t"` // ms
	Token    uint64 `json:"f"`
	Ref      string `json:"r,omitempty"`

	Also []handle `json:"a,omitempty"` // other locks of the same hold
}

// A handle's text begins with its version.
const handleVersion = "pawl1."

var errHandle = errors.New("it is no handle: give what pawl acquire has printed")

func handleOf(h *hold) handle {
	var all []handle
	for _, l := range h.leases {
		c := h.store.grantOf(l.Key())
		all = append(all, handle{
			Store: h.store.name, Key: c.Key, ID: c.ID, Label: c.Label, Weight: c.Weight, Capacity: c.Capacity,
			TTL: c.TTL.Milliseconds(), Token: c.Grant.Token, Ref: c.Grant.Ref,
		})
	}
	first := all[0]
	first.Also = all[1:]
	return first
}

// all returns the handles of each lock that h is for.
func (h handle) all() []handle { return append([]handle{h}, h.Also...) }

func (h handle) String() string {
	b, _ := json.Marshal(h) // strings and numbers: it can't fail
	return handleVersion + base64.RawURLEncoding.EncodeToString(b)
}

func (h handle) claim() driver.Claim {
	ttl := time.Duration(h.TTL) * time.Millisecond
	return driver.Claim{
		Key: h.Key, ID: h.ID, Label: h.Label, Weight: h.Weight, Capacity: h.Capacity, TTL: ttl, Block: 1,
		Grant: driver.Grant{Token: h.Token, Block: 1, TTL: ttl, Holder: h.ID, Ref: h.Ref},
	}
}

// parseHandle reads a handle, also out of all that acquire has printed: a script
// has that in hand if it did not take the lines apart.
func parseHandle(s string) (handle, error) {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	text, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(first), "handle="), handleVersion)
	if !ok {
		return handle{}, errHandle
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return handle{}, errHandle
	}
	var h handle
	if err := json.Unmarshal(b, &h); err != nil {
		return handle{}, errHandle
	}
	for _, one := range h.all() {
		if one.Key == "" || one.ID == "" || one.TTL <= 0 || one.TTL > int64(forever/time.Millisecond) {
			return handle{}, errHandle
		}
	}
	return h, nil
}

// handleFlags are the flags of the commands that take a handle.
type handleFlags struct {
	text string
	file string
}

func (f *handleFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.text, "handle", "", "`handle` that acquire has printed (default PAWL_HANDLE)")
	cmd.Flags().StringVar(&f.file, "handle-file", "", "`file` that acquire has written")
	cmd.MarkFlagsMutuallyExclusive("handle", "handle-file")
}

// given reports whether there is a handle.
func (f *handleFlags) given() bool {
	return f.text != "" || f.file != "" || os.Getenv("PAWL_HANDLE") != ""
}

// read returns the handle for the lock key.
func (f *handleFlags) read(key string) (handle, error) {
	text := f.text
	switch {
	case f.file != "":
		b, err := readAtMost(f.file, 1<<20)
		if err != nil {
			return handle{}, fail(exitUsage, "cannot read --handle-file: %v", err)
		}
		text = string(b)
	case text == "":
		text = os.Getenv("PAWL_HANDLE")
	}
	if text == "" {
		return handle{}, usage("which hold of %s? give its --handle: a lock is never renewed or released by name alone", plain.Quote(key))
	}
	h, err := parseHandle(text)
	if err != nil {
		return handle{}, usage("%v", err)
	}
	if h.Key != key {
		return handle{}, usage("the handle is for %s and not for %s", plain.Quote(h.Key), plain.Quote(key))
	}
	return h, nil
}

func readAtMost(name string, n int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// writeHandle writes h to the file name, for its owner alone; a reader sees the
// old file or the new one.
func writeHandle(name string, h handle) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".pawl-handle-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(h.String() + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
