package fencefile

import (
	"maps"
	"testing"
)

// RoundTrip fails the test unless text is refused, or means the same when it is
// written again.
func RoundTrip(t *testing.T, text []byte) {
	first, err := parse(text)
	if err != nil {
		return
	}
	second, err := parse(first.encode())
	if err != nil || !maps.Equal(first, second) {
		t.Errorf("%q is %v, and after a round trip %v, %v", text, first, second, err)
	}
}
