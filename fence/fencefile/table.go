package fencefile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlock/pawl/fence"
)

// A table has the mark of each resource. As text it is a line that says what it
// is, a line for each resource, and a line that says how many there are, so that
// a file that was cut is told from one that is whole:
//
//	pawl fence 1
//	RESOURCE LOCK HIGHEST-EXCLUSIVE HIGHEST-SHARED
//	end 1
//
// The names are escaped as in the query of a URL.
type table map[string]fence.Mark

const heading = "pawl fence 1\n"

func (t table) encode() []byte {
	var b bytes.Buffer
	b.WriteString(heading)
	for _, resource := range slices.Sorted(maps.Keys(t)) {
		m := t[resource]
		fmt.Fprintf(&b, "%s %s %d %d\n", url.QueryEscape(resource), url.QueryEscape(m.Key), m.Exclusive, m.Shared)
	}
	fmt.Fprintf(&b, "end %d\n", len(t))
	return b.Bytes()
}

// parse is the inverse of encode. It takes nothing else: to guess would be to let
// a stale token pass.
func parse(text []byte) (table, error) {
	body, found := strings.CutPrefix(string(text), heading)
	if !found {
		return nil, fmt.Errorf("it does not begin with %q", strings.TrimSpace(heading))
	}
	t := table{}
	for number := 2; ; number++ {
		line, rest, whole := strings.Cut(body, "\n")
		if !whole {
			return nil, errors.New("its end is missing")
		}
		if count, ends := strings.CutPrefix(line, "end "); ends && rest == "" {
			if count != strconv.Itoa(len(t)) {
				return nil, fmt.Errorf("it has %d resources and says %q", len(t), line)
			}
			return t, nil
		}
		if err := t.add(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		body = rest
	}
}

func (t table) add(line string) error {
	fields := strings.Split(line, " ")
	if len(fields) != 4 {
		return fmt.Errorf("has %d fields, not 4", len(fields))
	}
	resource, err := url.QueryUnescape(fields[0])
	if err != nil {
		return err
	}
	var m fence.Mark
	if m.Key, err = url.QueryUnescape(fields[1]); err != nil {
		return err
	}
	if m.Exclusive, err = strconv.ParseUint(fields[2], 10, 64); err != nil {
		return err
	}
	if m.Shared, err = strconv.ParseUint(fields[3], 10, 64); err != nil {
		return err
	}
	if _, twice := t[resource]; twice || resource == "" || m.Key == "" {
		return errors.New("names a resource twice, or none, or no lock")
	}
	t[resource] = m
	return nil
}
