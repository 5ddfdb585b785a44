package goredis_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/internal/testserver"
)

// A scriptTest is what one call of a script does: state before, call, answer,
// what is published, state after.
//
// In before, call and want, US+2 is the server's time in microseconds two
// seconds from now, MS-1 that in milliseconds one second ago. Times and
// durations are compared to the second: a real server's clock goes on. RUNID is
// the server's run ID and INCARNATION what fences have of it.
type scriptTest struct {
	name   string
	keys   []string // by name; nil: the five of a lock
	before []string // commands; a word in single quotes may have spaces
	call   string   // a script, and its ARGV
	want   string   // the answer, as fmt prints it; or the error
	heard  string   // what is published
	after  []string // the keys, as dump prints them; nil: as before
}

// The keys of the tables, by the names that the scripts give them.
var scriptKeys = []string{"lock", "line", "shares", "claims", "fence", "node"}

func keyOf(name string) string {
	switch name {
	case "lock":
		return "lock:k"
	case "node":
		return "pawl.node:lock:"
	}
	return "pawl." + name + ":{lock:k}"
}

func TestScripts(t *testing.T) {
	t.Run("miniredis", func(t *testing.T) {
		m := newMiniredis(t)
		now := time.Date(2030, 1, 2, 3, 4, 5, 123456000, time.UTC)
		testScripts(t, dialMiniredis(t, m.Dial), func() { m.SetTime(now) }, "", true)
	})
	t.Run("redis-server", func(t *testing.T) {
		s := testserver.StartRedis(t, testserver.RedisOptions{})
		rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr})
		t.Cleanup(func() { rdb.Close() })
		_, run, _ := strings.Cut(s.Do("INFO", "server").(string), "run_id:")
		run, _, _ = strings.Cut(run, "\r")
		testScripts(t, rdb, func() {}, run, false)
	})
}

func testScripts(t *testing.T, rdb *goredis.Client, reset func(), run string, mini bool) {
	var tests []scriptTest
	for _, some := range [][]scriptTest{acquireTests(), sharesTests(), lineTests(), renewTests(), releaseTests(), revokeTests(), inspectTests()} {
		tests = append(tests, some...)
	}
	if !mini { // it has no INFO in scripts
		tests = append(tests, quarantineTests()...)
	}
	listen := rdb.Subscribe(t.Context(), "ch.me", "ch.you", "ch.it", "pawl:free:lock:k", "end")
	t.Cleanup(func() { listen.Close() })
	for range 5 {
		if _, err := listen.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	heard := listen.Channel()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reset()
			for attempt := 1; ; attempt++ {
				began := time.Now()
				problems := runScriptTest(t, rdb, heard, test, run, mini)
				if !mini && time.Since(began) > slow && attempt < 20 {
					continue // the server's clock went on too far
				}
				for _, p := range problems {
					t.Error(p)
				}
				return
			}
		})
	}
}

// slow is how long a test may take on a real server, whose times are compared
// to the second.
const slow = 400 * time.Millisecond

// runScriptTest returns what differs from what test wants.
func runScriptTest(t *testing.T, rdb *goredis.Client, published <-chan *goredis.Message, test scriptTest, run string, mini bool) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	ctx := t.Context()
	rdb.FlushAll(ctx)
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	named, unnamed := strings.NewReplacer(), strings.NewReplacer()
	if run != "" {
		named = strings.NewReplacer("RUNID", run, "INCARNATION", run[:8])
		unnamed = strings.NewReplacer(run, "RUNID", run[:8], "INCARNATION")
	}
	for _, command := range test.before {
		args := words(named.Replace(command), now)
		for _, name := range scriptKeys {
			if args[1] == name {
				args[1] = keyOf(name)
			}
		}
		if err := rdb.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("before: %v: %v", args, err)
		}
	}
	before := dump(t, rdb, now, unnamed)

	call := words(named.Replace(test.call), now)
	names := test.keys
	if names == nil {
		names = scriptKeys[:5]
	}
	var keys []string
	for _, name := range names {
		keys = append(keys, keyOf(name))
	}
	v, err := rdb.Eval(ctx, readScript(t, call[0].(string)), keys, call[1:]...).Result()
	got := relative(unnamed.Replace(fmt.Sprint(v)), now)
	var sent goredis.Error
	switch {
	case errors.As(err, &sent):
		got, _, _ = strings.Cut(strings.TrimPrefix(err.Error(), "ERR "), " ")
		if mini && strings.Contains(err.Error(), test.want) {
			got = test.want // it wraps what a script raises
		}
	case err != nil:
		t.Fatal(err)
	}
	if got != test.want {
		problem("%s: got %v, want %v", test.call, got, test.want)
	}
	if heard := heardBy(t, rdb, published); heard != test.heard {
		problem("%s: got %q published, want %q", test.call, heard, test.heard)
	}
	after, want := dump(t, rdb, now, unnamed), strings.Join(test.after, "\n")
	if test.after == nil {
		want = before
	}
	if after != want {
		problem("%s: state after:\ngot\n%s\nwant\n%s", test.call, after, want)
	}
	return problems
}

// heardBy returns what has been published since it was asked last.
func heardBy(t *testing.T, rdb *goredis.Client, published <-chan *goredis.Message) string {
	rdb.Publish(t.Context(), "end", "")
	var heard []string
	for {
		var m *goredis.Message
		select {
		case m = <-published:
		case <-time.After(10 * time.Second):
			t.Fatal("nothing comes through the subscription")
		}
		if m.Channel == "end" {
			return strings.Join(heard, ", ")
		}
		payload := m.Payload
		if _, err := strconv.ParseInt(payload, 10, 64); err == nil {
			payload = "US" // the server's time
		}
		heard = append(heard, m.Channel+": "+payload)
	}
}

func readScript(t *testing.T, name string) string {
	b, err := os.ReadFile("../scripts/" + name + ".lua")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var wordPattern = regexp.MustCompile(`'[^']*'|\S+`)

// words takes a command apart and puts times in.
func words(command string, now time.Time) []any {
	var args []any
	for _, w := range wordPattern.FindAllString(command, -1) {
		args = append(args, absolute(strings.Trim(w, "'"), now))
	}
	return args
}

var timePattern = regexp.MustCompile(`(US|MS)([+-]\d+)`)

func absolute(s string, now time.Time) string {
	return timePattern.ReplaceAllStringFunc(s, func(w string) string {
		seconds, _ := strconv.Atoi(w[2:])
		at := now.Add(time.Duration(seconds) * time.Second)
		if w[:2] == "US" {
			return strconv.FormatInt(at.UnixMicro(), 10)
		}
		return strconv.FormatInt(at.UnixMilli(), 10)
	})
}

var numberPattern = regexp.MustCompile(`\d{3,}`)

// relative is the inverse of absolute. Durations are rounded to the second.
func relative(s string, now time.Time) string {
	return numberPattern.ReplaceAllStringFunc(s, func(w string) string {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil || n < 500 {
			return w
		}
		for _, unit := range []struct {
			name string
			now  int64
			size float64
		}{{"US", now.UnixMicro(), 1e6}, {"MS", now.UnixMilli(), 1e3}} {
			if seconds := math.Round(float64(n-unit.now) / unit.size); math.Abs(seconds) < 200_000 {
				return fmt.Sprintf("%s%+d", unit.name, int(seconds))
			}
		}
		return strconv.Itoa(int(math.Round(float64(n)/1000)) * 1000)
	})
}

// dump prints the keys, each with its time to live.
func dump(t *testing.T, rdb *goredis.Client, now time.Time, unnamed *strings.Replacer) string {
	ctx := t.Context()
	var lines []string
	for _, name := range scriptKeys {
		key := keyOf(name)
		var text string
		switch kind := rdb.Type(ctx, key).Val(); kind {
		case "none":
			continue
		case "string":
			text = rdb.Get(ctx, key).Val()
		case "zset":
			for _, z := range rdb.ZRangeWithScores(ctx, key, 0, -1).Val() {
				text += fmt.Sprintf(" %s=%.0f", z.Member, z.Score)
			}
		case "hash":
			fields := rdb.HGetAll(ctx, key).Val()
			for _, field := range slices.Sorted(maps.Keys(fields)) {
				text += fmt.Sprintf(" %s=(%s)", field, fields[field])
			}
		default:
			text = "a " + kind
		}
		life := rdb.Do(ctx, "PTTL", key).Val().(int64)
		lines = append(lines, relative(fmt.Sprintf("%s: %s, %d", name, unnamed.Replace(strings.TrimSpace(text)), life), now))
	}
	return strings.Join(lines, "\n")
}
