package zookeeper

import (
	"testing"
	"time"
)

// What the leader knows of a session when it has a request, by when the signs of life
// before were sent and answered.
func TestWhatTheLeaderWasTold(t *testing.T) {
	const tick = 2 * time.Second
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for name, test := range map[string]struct {
		connected float64
		answered  [][2]float64 // sent, answered
		sent      float64
		want      float64
	}{
		"a new connection":              {0, nil, 0.1, 0},
		"it began after the request":    {3, nil, 1, 3},
		"long ago":                      {0, nil, 30, 0},
		"a sign a tick ago":             {0, [][2]float64{{10, 10}}, 12, 10},
		"a sign of less":                {0, [][2]float64{{10, 10}}, 11.9, 0},
		"a sign that was answered late": {0, [][2]float64{{10, 11}}, 12.9, 0},
		"the last of several":           {0, [][2]float64{{4, 4}, {8, 8}, {12, 12}}, 13, 8},
		"more than can be kept apart":   {0, [][2]float64{{4, 4}, {4.1, 4.1}, {4.2, 4.2}}, 13, 4},
		"those of old are forgotten":    {0, [][2]float64{{10, 10}, {20, 20}, {90, 90}, {100, 100}}, 91, 20},
		"a request before them":         {0, [][2]float64{{10, 10}, {20, 20}, {90, 90}, {100, 100}}, 15, -1},
	} {
		var s signs
		s.answered(at(-5), at(-5)) // on the connection before
		s.connected(at(test.connected))
		for _, g := range test.answered {
			s.answered(at(g[0]), at(g[1]))
		}
		want := at(test.want)
		if test.want < 0 {
			want = time.Time{}
		}
		if got := s.told(at(test.sent), tick); !got.Equal(want) {
			t.Errorf("%s: got %v, want %v after the start", name, got.Sub(start), want.Sub(start))
		}
	}
}
