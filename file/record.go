package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A record file is a header, which fills the first sector, and a body that the
// header points to:
//
//	pawl-lock 1 seq=7 at=512 len=301 sum=… last=1754… boot=… clock=… rooted=true check=…
//	{"key":"deploy","line":[…]}
//
// A new body is written beside the one in use, and then the header. The header
// is small enough to be written whole or not at all, and until it is there the
// old body counts. See [recordFile.commit] for the loss of power.
const (
	version    = 1
	magic      = "pawl-lock"
	headerSize = 512
	blockSize  = 4096 // a new file has it, so that its writes change no metadata
)

// A header tells which body counts, and what must outlive a body.
type header struct {
	seq    uint64        // rises with each change
	at     int64         // where the body is
	size   int64         // its bytes
	sum    string        // its checksum
	last   uint64        // the last token given out
	boot   string        // the boot in which it was written, unknownBoot if that can't be known
	clock  time.Duration // since that boot
	rooted bool          // the file's name is on disk
}

func (h header) text() string {
	return fmt.Sprintf("%s %d seq=%d at=%d len=%d sum=%s last=%d boot=%s clock=%d rooted=%t check=",
		magic, version, h.seq, h.at, h.size, h.sum, h.last, h.boot, int64(h.clock), h.rooted)
}

// encode returns the sector that h fills.
func (h header) encode() []byte {
	text := h.text()
	sector := bytes.Repeat([]byte{' '}, headerSize)
	copy(sector, text+checksum([]byte(text)))
	sector[headerSize-1] = '\n'
	return sector
}

// parseHeader is the inverse of encode. It takes nothing that encode would not
// have written.
func parseHeader(sector []byte) (header, error) {
	if len(sector) < headerSize {
		return header{}, fmt.Errorf("it has only %d bytes", len(sector))
	}
	sector = sector[:headerSize]
	fields := strings.Fields(string(sector))
	if len(fields) < 2 || fields[0] != magic {
		return header{}, errors.New("it does not begin with a header")
	}
	if fields[1] != strconv.Itoa(version) {
		return header{}, fmt.Errorf("its format is %q: this program knows %d", fields[1], version)
	}
	var h header
	if len(fields) != 11 {
		return header{}, errors.New("its header has missing or unknown fields")
	}
	value := func(i int, name string) string {
		v, _ := strings.CutPrefix(fields[i], name+"=") // a wrong name shows below
		return v
	}
	h.seq, _ = strconv.ParseUint(value(2, "seq"), 10, 64)
	h.at, _ = strconv.ParseInt(value(3, "at"), 10, 64)
	h.size, _ = strconv.ParseInt(value(4, "len"), 10, 64)
	h.sum = value(5, "sum")
	h.last, _ = strconv.ParseUint(value(6, "last"), 10, 64)
	h.boot = value(7, "boot")
	clock, _ := strconv.ParseInt(value(8, "clock"), 10, 64)
	h.clock = time.Duration(clock)
	h.rooted = value(9, "rooted") == "true"
	if !bytes.Equal(h.encode(), sector) {
		return header{}, errors.New("its header does not match its checksum")
	}
	if h.at < headerSize || h.size < 0 || h.size > maxBody || h.at > 4*maxBody {
		return header{}, errors.New("its header points outside the file")
	}
	return h, nil
}

// maxBody bounds what a header can make us read.
const maxBody = 1 << 30

type body struct {
	Key     string   `json:"key"`
	LastID  string   `json:"last_id,omitempty"`
	Line    []entry  `json:"line,omitempty"`
	Notices []notice `json:"notices,omitempty"`
}

// Times are nanoseconds, those that end or begin something since boot.
type entry struct {
	ID       string        `json:"id"`
	Label    string        `json:"label,omitempty"`
	Weight   int           `json:"weight"`
	Capacity int           `json:"capacity"`
	Held     bool          `json:"held,omitempty"`
	Kept     bool          `json:"kept,omitempty"`
	Token    uint64        `json:"token,omitempty"`
	Block    int           `json:"block,omitempty"`
	Presence string        `json:"presence,omitempty"` // of one that waits
	TTL      time.Duration `json:"ttl"`
	Since    time.Duration `json:"since"`
	Expires  time.Duration `json:"expires"`
}

type notice struct {
	ID      string        `json:"id"`
	Force   bool          `json:"force,omitempty"`
	By      string        `json:"by,omitempty"`
	Why     string        `json:"why,omitempty"`
	At      time.Time     `json:"at"`
	Expires time.Duration `json:"expires"`
}

// A line is a driver.Line that knows who waits.
type line struct {
	driver.Line
	presence map[string]string // by the ID of a claim that waits: see presence
}

func newLine() *line { return &line{presence: make(map[string]string)} }

// encodeBody returns all of l but its counter, which is in the header.
func encodeBody(key string, l *line) ([]byte, error) {
	b := body{Key: key, LastID: l.LastID}
	for i := range l.Entries {
		e := &l.Entries[i]
		b.Line = append(b.Line, entry{
			ID: e.Claim.ID, Label: e.Claim.Label, Weight: e.Claim.Weight, Capacity: e.Claim.Capacity,
			Held: e.Held, Kept: e.Kept,
			Token: e.Claim.Grant.Token, Block: e.Claim.Grant.Block,
			TTL: e.Claim.TTL, Since: e.Since, Expires: e.Expires,
		})
		if !e.Held {
			b.Line[i].Presence = l.presence[e.Claim.ID]
		}
	}
	for _, n := range l.Notices {
		b.Notices = append(b.Notices, notice{
			ID: n.ID, Force: n.Notice.Force, By: n.Notice.By, Why: n.Notice.Why,
			At: n.Notice.At.Round(0).UTC(), Expires: n.Expires,
		})
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(b); err != nil { // with a newline at its end
		return nil, err
	}
	return out.Bytes(), nil
}

// parseBody is the inverse of encodeBody for the body that h points to.
func parseBody(h header, text []byte) (key string, l *line, err error) {
	if int64(len(text)) != h.size {
		return "", nil, fmt.Errorf("%d bytes of its body are missing", h.size-int64(len(text)))
	}
	if checksum(text) != h.sum {
		return "", nil, errors.New("its body does not match its checksum")
	}
	var b body
	if err := json.Unmarshal(text, &b); err != nil {
		return "", nil, fmt.Errorf("its body can't be read: %w", err)
	}
	l = newLine()
	l.Last, l.LastID = h.last, b.LastID
	for _, e := range b.Line {
		c := driver.Claim{
			Key: b.Key, ID: e.ID, Label: e.Label, Weight: e.Weight, Capacity: e.Capacity, TTL: e.TTL, Queue: !e.Held,
			Grant: driver.Grant{Token: e.Token, Block: e.Block},
		}
		if e.Held {
			c.Grant.Holder, c.Block = e.ID, e.Block
		} else if e.Presence != "" {
			l.presence[e.ID] = e.Presence
		}
		if e.ID == "" || e.Weight < 1 || e.Capacity < e.Weight || e.Capacity > driver.Unlimited || e.Held == (e.Token == 0) {
			return "", nil, fmt.Errorf("its claim %q makes no sense", e.ID)
		}
		l.Entries = append(l.Entries, driver.Entry{Claim: c, Held: e.Held, Kept: e.Kept, Since: e.Since, Expires: e.Expires})
	}
	for _, n := range b.Notices {
		l.Notices = append(l.Notices, driver.LeftNotice{
			ID: n.ID, Expires: n.Expires,
			Notice: driver.Notice{Force: n.Force, By: n.By, Why: n.Why, At: n.At},
		})
	}
	return b.Key, l, nil
}

// checksum tells an accident, not a forgery: 128 bits.
func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
