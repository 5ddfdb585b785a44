package file

import (
	"bytes"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawlock/pawl/driver"
)

func sampleLine() *line {
	claim := func(id string, held bool, token uint64) driver.Entry {
		c := driver.Claim{
			Key: "a/b <&> \u2028 \x00", ID: id, Label: "host:1", Weight: 1, Capacity: 3,
			TTL: 10 * time.Second, Queue: !held,
		}
		if held {
			c.Block = 2
			c.Grant = driver.Grant{Token: token, Block: 2, Holder: id}
		}
		return driver.Entry{Claim: c, Held: held, Kept: held, Expires: 20 * time.Second, Since: time.Second}
	}
	at := time.Date(2030, 1, 2, 3, 4, 5, 678, time.UTC)
	return &line{presence: map[string]string{"b/0123.2": "alive-1"}, Line: driver.Line{
		Last: 1 << 60, LastID: "a/0123.1",
		Entries: []driver.Entry{claim("a/0123.1", true, 1<<60-1), claim("b/0123.2", false, 0)},
		Notices: []driver.LeftNotice{{ID: "x", Notice: driver.Notice{Force: true, By: "ops", Why: "“stuck”", At: at}, Expires: time.Hour}},
	}}
}

func sampleRecord(t testing.TB) (header, []byte) {
	l := sampleLine()
	text, err := encodeBody(l.Entries[0].Claim.Key, l)
	if err != nil {
		t.Fatal(err)
	}
	return header{
		seq: 7, at: headerSize, size: int64(len(text)), sum: checksum(text), last: l.Last,
		boot: "8a3f1b52-0000-4000-8000-000000000000", clock: time.Hour, rooted: true,
	}, text
}

func TestRecordReadsBackWhatWasWritten(t *testing.T) {
	h, text := sampleRecord(t)
	got, err := parseHeader(h.encode())
	if err != nil || got != h {
		t.Fatalf("header: got %+v, %v, want %+v", got, err, h)
	}
	key, read, err := parseBody(h, text)
	if want := sampleLine(); err != nil || key != want.Entries[0].Claim.Key || !reflect.DeepEqual(read, want) {
		t.Fatalf("body: got %q %+v, %v, want %+v", key, read, err, want)
	}
}

func TestRecordWithAFlippedBitIsNeverAccepted(t *testing.T) {
	h, text := sampleRecord(t)
	sector := h.encode()
	for i := range 8 * len(sector) {
		flipped := bytes.Clone(sector)
		flipped[i/8] ^= 1 << (i % 8)
		if got, err := parseHeader(flipped); err == nil {
			t.Errorf("bit %d of the header flipped: got %+v, want an error", i, got)
		}
	}
	for i := range 8 * len(text) {
		flipped := bytes.Clone(text)
		flipped[i/8] ^= 1 << (i % 8)
		if _, got, err := parseBody(h, flipped); err == nil {
			t.Errorf("bit %d of the body flipped: got %+v, want an error", i, got)
		}
	}
}

func TestLargestHeaderFitsItsSector(t *testing.T) {
	h := header{
		seq: 1<<64 - 1, at: 4 * maxBody, size: maxBody, sum: checksum(nil), last: 1<<64 - 1,
		boot: string(bytes.Repeat([]byte{'x'}, 64)), clock: 1<<63 - 1,
	}
	if got, err := parseHeader(h.encode()); err != nil || got != h {
		t.Errorf("got %+v, %v, want %+v", got, err, h)
	}
}

func TestNewerFormatIsNamed(t *testing.T) {
	h, _ := sampleRecord(t)
	sector := bytes.Replace(h.encode(), []byte("pawl-lock 1 "), []byte("pawl-lock 2 "), 1)
	if _, err := parseHeader(sector); err == nil || !bytes.Contains([]byte(err.Error()), []byte(`format is "2"`)) {
		t.Errorf("a record of version 2: got %v, want an error that names the format", err)
	}
}

// FuzzHeader holds that a header is taken only as it would be written.
func FuzzHeader(f *testing.F) {
	h, _ := sampleRecord(f)
	f.Add(h.encode())
	f.Add([]byte("pawl-lock 1 seq=1"))
	f.Fuzz(func(t *testing.T, sector []byte) {
		h, err := parseHeader(sector)
		if err == nil && !bytes.Equal(h.encode(), sector[:headerSize]) {
			t.Errorf("%q was taken for %+v", sector, h)
		}
	})
}

// FuzzHeaderRoundTrip holds that any header is read back as it was written.
func FuzzHeaderRoundTrip(f *testing.F) {
	f.Add(uint64(1), int64(512), int64(0), uint64(9), int64(5), true)
	f.Fuzz(func(t *testing.T, seq uint64, at, size int64, last uint64, clock int64, rooted bool) {
		h := header{seq: seq, at: at, size: size, sum: checksum(nil), last: last, boot: "b", clock: time.Duration(clock), rooted: rooted}
		inside := at >= headerSize && at <= 4*maxBody && size >= 0 && size <= maxBody
		if got, err := parseHeader(h.encode()); (err == nil) != inside || inside && got != h {
			t.Errorf("got %+v, %v, want %+v", got, err, h)
		}
	})
}

// FuzzBody holds that no body, its checksum right, makes the parser panic, and
// that what it takes for a line survives being written and read again.
func FuzzBody(f *testing.F) {
	_, text := sampleRecord(f)
	f.Add(text)
	f.Add([]byte(`{"key":"k"}`))
	f.Add([]byte(`{"key":"k","line":[{"id":"a","weight":-1,"capacity":1}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		key, l, err := parseBody(header{size: int64(len(text)), sum: checksum(text)}, text)
		if err != nil {
			return
		}
		again, err := encodeBody(key, l)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		key2, l2, err := parseBody(header{size: int64(len(again)), sum: checksum(again)}, again)
		if err != nil || key2 != key || !reflect.DeepEqual(l, l2) {
			t.Errorf("got %q %+v, %v, want %q %+v", key2, l2, err, key, l)
		}
	})
}

func TestBodyIsNeverWrittenOverTheOneInUse(t *testing.T) {
	r := recordFile{header: header{at: headerSize, size: 100}}
	for i, size := range []int64{100, 100, 5000, 90, 10, 6000, 100, 6000, 70000, 1} {
		at := r.room(size)
		used, end := r.header.at, r.header.at+r.header.size
		if at < headerSize || at < end && at+size > used {
			t.Fatalf("step %d: a body of %d bytes goes to %d, over %d to %d or the header", i, size, at, used, end)
		}
		r.header.at, r.header.size = at, size
	}
}

// FuzzName holds that a name leads back to its key, and that no other name
// leads to the same one.
func FuzzName(f *testing.F) {
	for _, key := range []string{"k", "K", "a/b", "..", "con", "%2f", "a\x00b", "é", "e\u0301", "lock-a", " ", "a."} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if key == "" || !utf8.ValidString(key) {
			return
		}
		name := recordName(key)
		if len(name) > maxName || bytes.ContainsAny([]byte(name), "/\\ABCDEFGHIJKLMNOPQRSTUVWXYZ.:") {
			t.Errorf("recordName(%q): got %q, which is not fit for every file system", key, name)
		}
		got, ok := keyOf(name)
		if !ok || got != key && got != "" {
			t.Errorf("keyOf(recordName(%q)): got %q, %t", key, got, ok)
		}
		if got, ok := keyOf(key); ok && got != "" && recordName(got) != key {
			t.Errorf("keyOf(%q): got %q, whose record is another", key, got)
		}
	})
}
