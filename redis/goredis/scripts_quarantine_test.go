package goredis_test

// ARGV of acquire with a quarantine: as without, and the longest TTL, what is
// added, the configuration. Theirs is a run ID that no server draws.
func quarantineTests() []scriptTest {
	const (
		theirs = "0000000000000000000000000000000000000000"
		open   = "SET node 'RUNID US-9 US-60 US-100 61000000 60000 1000 a b' PX 99000"
		shut   = "node: RUNID US+61 US+2 US+0 61000000 60000 1000 a b, 7776000000"
		left   = "node: RUNID US-9 US-60 US-100 61000000 60000 1000 a b, 99000"
		call   = "acquire me 10000 1 1 0 0 1 0 ch.me label 60000 1000 'a b'"
		vote   = "acquire me 10000 1 1 0 0 1 US+0 ch.me label 60000 1000 'a b'"
		behind = "acquire me 10000 1 1 0 0 1 5 ch.me label 60000 1000 'a b'"
	)
	return []scriptTest{
		{
			name: "acquire where there is no marker", keys: scriptKeys, call: call,
			want:  "[-3 US+0 61000]",
			after: []string{shut},
		},
		{
			name: "acquire what the marker of another server is for", keys: scriptKeys, call: call,
			before: []string{"SET node '" + theirs + " US-900 US-860 US-900 61000000 60000 1000 a b' PX 9000", "SET lock me:7 PX 5000", "SET fence 7::me PX 50000"},
			want:   "[-3 US+0 61000]",
			after:  []string{"lock: me:7, 5000", "fence: 7::me, 50000", shut},
		},
		{
			name: "acquire where a marker of another server is ahead and was for longer", keys: scriptKeys, call: call,
			before: []string{"SET node '" + theirs + " US-900 US+90 US-900 99000000 98000 1000 other' PX 9000"},
			want:   "[-3 US+0 99000]",
			after:  []string{"node: RUNID US+99 US+90 US+0 99000000 60000 1000 a b, 7776000000"},
		},
		{
			name: "acquire where the marker can't be read", keys: scriptKeys, call: call,
			before: []string{"SET node nonsense PX 9000"},
			want:   "[-3 US+0 61000]",
			after:  []string{shut},
		},
		{
			name: "acquire during the quarantine", keys: scriptKeys, call: call,
			before: []string{"SET node 'RUNID US+30 US-60 US-10 61000000 60000 1000 a b' PX 99000"},
			want:   "[-3 US+0 30000]",
		},
		{
			name: "acquire with a quarantine that a clock set back has made too long", keys: scriptKeys, call: call,
			before: []string{"SET node 'RUNID US+3600 US+3602 US+3500 61000000 60000 1000 a b' PX 99000"},
			want:   "[-3 US+0 61000]",
			after:  []string{"node: RUNID US+61 US+3602 US+0 61000000 60000 1000 a b, 7776000000"},
		},
		{
			name: "acquire after the quarantine", keys: scriptKeys, call: call,
			before: []string{open},
			want:   "[1 US+0 US+0 1]",
			after:  []string{"lock: me:US+0, 10000", "fence: US+0:INCARNATION:me, 86400000", left},
		},
		{
			name: "acquire a share after the quarantine", keys: scriptKeys,
			call:   "acquire me 10000 1 3 0 0 1 0 ch.me label 60000 1000 'a b'",
			before: []string{open},
			want:   "[1 US+0 US+0 1]",
			after: []string{"lock: #shares, 10000", "shares: me=MS+10, 11000",
				"claims: #w=(1) me=(h 1 3 MS+10 10000 US+0 1 ch.me label), 11000", "fence: US+0:INCARNATION:me, 86400000", left},
		},
		{
			name: "acquire with a marker that is a day old", keys: scriptKeys, call: call,
			before: []string{"SET node 'RUNID US-90000 US-90000 US-90000 61000000 60000 1000 a b' PX 9000"},
			want:   "[1 US+0 US+0 1]",
			after:  []string{"lock: me:US+0, 10000", "fence: US+0:INCARNATION:me, 86400000", "node: RUNID US-90000 US-90000 US+0 61000000 60000 1000 a b, 7776000000"},
		},
		{
			name: "acquire with another configuration", keys: scriptKeys, before: []string{open},
			call: "acquire me 10000 1 1 0 0 1 0 ch.me label 60000 1000 'a c'",
			want: "[-4 US+0 60000 1000 a b]",
		},
		{
			name: "acquire with another longest TTL", keys: scriptKeys, before: []string{open},
			call: "acquire me 10000 1 1 0 0 1 0 ch.me label 30000 1000 'a b'",
			want: "[-4 US+0 60000 1000 a b]",
		},
		{
			name: "acquire for longer than the longest TTL", keys: scriptKeys, before: []string{open},
			call: "acquire me 60001 1 1 0 0 1 0 ch.me label 60000 1000 'a b'",
			want: "TTLTOOLONG",
		},
		{
			name: "acquire too late, with a quarantine", keys: scriptKeys,
			call: "acquire me 10000 1 1 US-1 0 1 0 ch.me label 60000 1000 'a b'",
			want: "[-2 US+0]",
		},
		{
			name: "a short quarantine lasts for two seconds", keys: scriptKeys,
			call:  "acquire me 10 1 1 0 0 1 0 ch.me label 10 0 ''",
			want:  "[-3 US+0 2000]",
			after: []string{"node: RUNID US+2 US+2 US+0 2000000 10 0, 7776000000"},
		},
		{
			name: "a counter of this server goes on", keys: scriptKeys, call: call,
			before: []string{open, "SET fence US+20:INCARNATION:you PX 50000"},
			want:   "[1 US+0 US+20 1]",
			after:  []string{"lock: me:US+20, 10000", "fence: US+20:INCARNATION:me, 86400000", left},
		},
		{
			name: "a counter of another server leaps", keys: scriptKeys, call: call,
			before: []string{open, "SET fence US+20:01234567:you PX 50000"},
			want:   "[1 US+0 US+21 1]", // and 48576 µs
			after:  []string{"lock: me:US+21, 10000", "fence: US+21:INCARNATION:me, 86400000", left},
		},
		{
			name: "a counter of another server that is behind", keys: scriptKeys, call: call,
			before: []string{open, "SET fence 7:01234567:you PX 50000"},
			want:   "[1 US+0 US+0 1]",
			after:  []string{"lock: me:US+0, 10000", "fence: US+0:INCARNATION:me, 86400000", left},
		},
		{
			name: "a counter of another server on a cluster", call: call,
			before: []string{"SET fence US+20:01234567:you PX 50000"},
			want:   "[1 US+0 US+21 1]",
			after:  []string{"lock: me:US+21, 10000", "fence: US+21:INCARNATION:me, 86400000"},
		},
		{
			name: "a counter from the time before the quarantine", keys: scriptKeys, call: call,
			before: []string{open, "SET fence US+20::you PX 50000"},
			want:   "[1 US+0 US+21 1]",
			after:  []string{"lock: me:US+21, 10000", "fence: US+21:INCARNATION:me, 86400000", left},
		},
		{
			name: "a node takes the candidate", keys: scriptKeys, call: vote,
			before: []string{open, "SET fence 7:INCARNATION:you PX 50000"},
			want:   "[1 US+0 US+0 1]",
			after:  []string{"lock: me:US+0, 10000", "fence: US+0:INCARNATION:me, 86400000", left},
		},
		{
			name: "a node that lost the counter", keys: scriptKeys, call: behind, before: []string{open},
			want:  "[1 US+0 US-1 1]",
			after: []string{"lock: me:US-1, 10000", "fence: US-1:INCARNATION:me, 86400000", left},
		},
		{
			name: "a node that lost the counter begins above its marker", keys: scriptKeys, call: vote,
			before: []string{"SET node 'RUNID US-9 US+5 US-8 61000000 60000 1000 a b' PX 99000"},
			want:   "[1 US+0 US+5 1]",
			after:  []string{"lock: me:US+5, 10000", "fence: US+5:INCARNATION:me, 86400000", "node: RUNID US-9 US+5 US-8 61000000 60000 1000 a b, 99000"},
		},
		{
			name: "a node with a counter of another server leaps ahead of the clock", keys: scriptKeys, call: behind,
			before: []string{open, "SET fence 7:01234567:you PX 50000"},
			want:   "[1 US+0 US+1 1]",
			after:  []string{"lock: me:US+1, 10000", "fence: US+1:INCARNATION:me, 86400000", left},
		},
		{
			name: "acquire when a leap would pass the last token", keys: scriptKeys, call: call,
			before: []string{open, "SET fence 9007199254000000:01234567:you PX 50000"},
			want:   "FENCEOVERFLOW",
		},
		{
			name: "renew raises a counter and leaves it its incarnation", call: "renew me 7 10000 9",
			before: []string{"SET lock me:7 PX 5000", "SET fence 7:abcdabcd:me PX 50000"},
			want:   "[1 US+0 7]",
			after:  []string{"lock: me:7, 10000", "fence: 9:abcdabcd:me, 86400000"},
		},
		{
			name: "bootstrap where nothing was", keys: []string{"node"}, call: "bootstrap 60000 1000 'a b'",
			want:  "[1 US+0]",
			after: []string{"node: RUNID US+0 US+2 US+0 61000000 60000 1000 a b, 7776000000"},
		},
		{
			name: "bootstrap keeps the floor", keys: []string{"node"}, call: "bootstrap 60000 1000 ''",
			before: []string{"SET node '" + theirs + " US+90 US+90 US-900 99000000 98000 1000 other' PX 9000"},
			want:   "[1 US+0]",
			after:  []string{"node: RUNID US+0 US+90 US+0 61000000 60000 1000, 7776000000"},
		},
	}
}
