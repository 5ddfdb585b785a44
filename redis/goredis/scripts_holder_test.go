package goredis_test

import (
	"fmt"
	"strings"
)

// ARGV of renew: ID, token, TTL, floor.
func renewTests() []scriptTest {
	held := []string{"SET lock me:7 PX 5000", "SET fence 7::me PX 50000"}
	shared := []string{
		"SET lock #shares PX 8000", "SET fence 8::it PX 50000", "ZADD shares MS+3 me MS+8 it",
		"HSET claims me 'h 1 9 MS+3 3000 7 1 ch.me m' it 'h 1 9 MS+8 8000 8 1 ch.it i' #w 2", "PEXPIRE claims 9000", "PEXPIRE shares 9000",
	}
	return []scriptTest{
		{
			name: "renew", before: held,
			call:  "renew me 7 10000 0",
			want:  "[1 US+0 7]",
			after: []string{"lock: me:7, 10000", "fence: 7::me, 86400000"},
		},
		{
			name: "renew for long keeps the fence ten times as long", before: held,
			call:  "renew me 7 20000000 0",
			want:  "[1 US+0 7]",
			after: []string{"lock: me:7, 20000000", "fence: 7::me, 200000000"},
		},
		{
			name: "renew to a shorter TTL", before: held,
			call:  "renew me 7 2000 0",
			want:  "[1 US+0 7]",
			after: []string{"lock: me:7, 2000", "fence: 7::me, 86400000"},
		},
		{
			name: "renew raises the counter", before: held,
			call:  "renew me 7 10000 40",
			want:  "[1 US+0 7]",
			after: []string{"lock: me:7, 10000", "fence: 40::me, 86400000"},
		},
		{
			name: "renew does not lower the counter", before: []string{"SET lock me:7 PX 5000", "SET fence 50:0123abcd:me PX 50000"},
			call:  "renew me 7 10000 40",
			want:  "[1 US+0 7]",
			after: []string{"lock: me:7, 10000", "fence: 50:0123abcd:me, 86400000"},
		},
		{
			name: "renew makes no fence", before: []string{"SET lock me:7 PX 5000"},
			call:  "renew me 7 10000 0",
			want:  "[1 US+0 7]",
			after: []string{"lock: me:7, 10000"},
		},
		{
			name: "renew with a floor and no fence", before: []string{"SET lock me:7 PX 5000"},
			call: "renew me 7 10000 40",
			want: "[-1 US+0 deleted]",
		},
		{name: "renew with another token", before: held, call: "renew me 6 10000 0", want: "[-1 US+0 expired]"},
		{name: "renew what has gone", before: held[1:], call: "renew me 7 10000 0", want: "[-1 US+0 expired]"},
		{name: "renew what left no trace", call: "renew me 7 10000 0", want: "[-1 US+0 deleted]"}, // B05
		{name: "renew what a foreign client has taken", before: append(held[:2:2], "SET lock theirs PX 5000"), call: "renew me 7 10000 0", want: "[-1 US+0 stolen]"},
		{name: "renew what was released with a Keep", before: append(held[:2:2], "SET lock me:7:kept PX 5000"), call: "renew me 7 10000 0", want: "[-1 US+0 expired]"},
		{
			name:   "renew after it was forced out",
			before: append(held[1:2:2], "HSET claims !me 'f US-1 MS+9 0 why' #n 2:me", "PEXPIRE claims 9000"),
			call:   "renew me 7 10000 0", want: "[-1 US+0 forced f US-1  why]",
		},
		{
			name:   "renew brings the notice",
			before: append(held[:2:2], "HSET claims !me 'a US-1 MS+9 3 bob' #n 2:me", "PEXPIRE claims 9000"),
			call:   "renew me 7 10000 0", want: "[1 US+0 7 a US-1 bob ]",
			after: []string{"lock: me:7, 10000", "claims: !me=(a US-1 MS+9 3 bob) #n=(2:me), 9000", "fence: 7::me, 86400000"},
		},
		{
			name:   "renew does not bring a notice that is forgotten",
			before: append(held[:2:2], "HSET claims !me 'a US-1 MS-1 3 bob' #n 2:me", "PEXPIRE claims 9000"),
			call:   "renew me 7 10000 0", want: "[1 US+0 7]",
			after: []string{"lock: me:7, 10000", "claims: !me=(a US-1 MS-1 3 bob) #n=(2:me), 9000", "fence: 7::me, 86400000"},
		},
		{
			name: "renew a share", before: shared,
			call: "renew me 7 10000 0",
			want: "[1 US+0 7]",
			after: []string{"lock: #shares, 10000", "shares: it=MS+8 me=MS+10, 11000",
				"claims: #w=(2) it=(h 1 9 MS+8 8000 8 1 ch.it i) me=(h 1 9 MS+10 10000 7 1 ch.me m), 11000", "fence: 8::it, 86400000"},
		},
		{
			name: "renew the longest share to a shorter TTL", before: shared,
			call: "renew it 8 5000 0",
			want: "[1 US+0 8]",
			after: []string{"lock: #shares, 5000", "shares: me=MS+3 it=MS+5, 9000",
				"claims: #w=(2) it=(h 1 9 MS+5 5000 8 1 ch.it i) me=(h 1 9 MS+3 3000 7 1 ch.me m), 9000", "fence: 8::it, 86400000"},
		},
		{name: "renew a share with another token", before: shared, call: "renew me 8 10000 0", want: "[-1 US+0 expired]"},
		{name: "renew a share after somebody has deleted the lock", before: append(shared[:6:6], "DEL lock"), call: "renew me 7 10000 0", want: "[-1 US+0 expired]"},
		{
			name: "renew a share that has ended", before: append(shared[:6:6], "HSET claims me 'h 1 9 MS-1 3000 7 1 ch.me m'"),
			call: "renew me 7 10000 0", want: "[-1 US+0 expired]",
		},
		{
			name: "renew a claim that waits", before: append(shared[:6:6], "HSET claims you 'w 1 9 MS+5 5000 0 0 ch.you y'"),
			call: "renew you 0 10000 0", want: "[-1 US+0 expired]",
		},
	}
}

// ARGV of release: ID, token, Keep.
func releaseTests() []scriptTest {
	held := []string{"SET lock me:7 PX 5000", "SET fence 7::me PX 50000"}
	line := []string{
		"ZADD line US-2 you US-1 it", "HSET claims you 'w 1 1 MS+8 8000 0 0 ch.you y' it 'w 1 1 MS+8 8000 0 0 ch.it i'",
		"PEXPIRE claims 9000", "PEXPIRE line 9000",
	}
	shared := []string{
		"SET lock #shares PX 8000", "SET fence 8::it PX 50000", "ZADD shares MS+3 me MS+8 it",
		"HSET claims me 'h 1 9 MS+3 3000 7 1 ch.me m' it 'h 1 9 MS+8 8000 8 1 ch.it i' #w 2", "PEXPIRE claims 9000", "PEXPIRE shares 9000",
	}
	done := "[1 US+0]"
	fence := []string{"fence: 7::me, 50000"}
	return []scriptTest{
		{name: "release", before: held, call: "release me 7 0", want: done, after: fence}, // J07
		{
			name: "release an attempt of a quorum", before: []string{"SET lock me~1:7 PX 5000", "SET fence 7::me~1 PX 50000"},
			call: "release me~1 7 0", want: done, heard: "pawl:free:lock:k: US", after: []string{"fence: 7::me~1, 50000"},
		},
		{name: "release an attempt of a quorum that has ended", before: []string{"SET fence 7::me~1 PX 50000"}, call: "release me~1 7 0", want: done},
		{
			name: "release an attempt of a quorum with a Keep", before: []string{"SET lock me~1:7 PX 5000", "SET fence 7::me~1 PX 50000"},
			call: "release me~1 7 20000", want: done, after: []string{"lock: me~1:7:kept, 20000", "fence: 7::me~1, 50000"},
		},
		{name: "release without the token", before: held, call: "release me 0 0", want: done, after: fence},
		{name: "release again", before: held[1:], call: "release me 7 0", want: done},
		{name: "release what was never granted", call: "release me 0 0", want: done},
		{name: "release what another holds", before: held, call: "release you 0 0", want: done}, // C10
		{name: "release with an ID that another's begins with", before: []string{"SET lock me:7:kept:8 PX 5000"}, call: "release me 7 0", want: "[-1 US+0 stolen]"},
		{name: "release what a foreign client has taken", before: []string{"SET lock theirs PX 5000", "SET fence 8::you PX 50000"}, call: "release me 7 0", want: "[-1 US+0 stolen]"},
		{name: "release what has ended", before: []string{"SET fence 8::you PX 50000"}, call: "release me 7 0", want: "[-1 US+0 expired]"},
		{name: "release what left no trace", call: "release me 7 0", want: "[-1 US+0 deleted]"},
		{
			name:   "release after it was forced out",
			before: []string{"SET fence 7::me PX 50000", "HSET claims !me 'f US-1 MS+9 3 bobwhy' #n 2:me", "PEXPIRE claims 9000"},
			call:   "release me 7 0", want: "[-1 US+0 forced f US-1 bob why]",
		},
		{
			name: "release with a Keep", before: held, call: "release me 7 20000", want: done,
			after: []string{"lock: me:7:kept, 20000", "fence: 7::me, 50000"},
		},
		{name: "release again what was released with a Keep", before: append(held[:2:2], "SET lock me:7:kept PX 5000"), call: "release me 7 0", want: done},
		{
			name: "release calls the head and tells the second", before: append(held[:2:2], line...),
			call: "release me 7 0", want: done, heard: "ch.you: go you, ch.it: next it",
			after: []string{"line: you=US-2 it=US-1, 9000",
				"claims: it=(w 1 1 MS+8 8000 0 0 ch.it i) you=(c 1 1 MS+1 8000 0 0 ch.you y), 9000", "fence: 7::me, 50000"},
		},
		{
			name: "release drops a dead head", before: append(append(held[:2:2], line...), "HSET claims you 'w 1 1 MS-1 8000 0 0 ch.you y'"),
			call: "release me 7 0", want: done, heard: "ch.it: go it",
			after: []string{"line: it=US-1, 9000", "claims: it=(c 1 1 MS+1 8000 0 0 ch.it i), 9000", "fence: 7::me, 50000"},
		},
		{
			name: "release calls again a head that was called", before: append(append(held[:2:2], line...), "HSET claims you 'c 1 1 MS+5 8000 0 0 ch.you y'", "ZREM line it", "HDEL claims it"),
			call: "release me 7 0", want: done, heard: "ch.you: go you",
			after: []string{"line: you=US-2, 9000", "claims: you=(c 1 1 MS+1 8000 0 0 ch.you y), 9000", "fence: 7::me, 50000"},
		},
		{
			name: "release of the head in line calls the next when there is room", before: line,
			call: "release you 0 0", want: done, heard: "ch.it: go it",
			after: []string{"line: it=US-1, 9000", "claims: it=(c 1 1 MS+1 8000 0 0 ch.it i), 9000"},
		},
		{
			name: "release in line calls nobody when there is no room", before: append(held[:2:2], line...),
			call: "release it 0 0", want: done,
			after: []string{"lock: me:7, 5000", "line: you=US-2, 9000", "claims: you=(w 1 1 MS+8 8000 0 0 ch.you y), 9000", "fence: 7::me, 50000"},
		},
		{
			name: "release of a share", before: shared, call: "release it 8 0", want: done,
			after: []string{"lock: #shares, 3000", "shares: me=MS+3, 9000", "claims: #w=(1) me=(h 1 9 MS+3 3000 7 1 ch.me m), 9000", "fence: 8::it, 50000"},
		},
		{
			name: "release of the last share", before: append(shared[:6:6], "ZREM shares me", "HDEL claims me", "HSET claims #w 1"),
			call: "release it 8 0", want: done, after: []string{"fence: 8::it, 50000"},
		},
		{
			name: "release of the last share leaves a foreign lock", before: append(shared[:6:6], "ZREM shares me", "HDEL claims me", "HSET claims #w 1", "SET lock theirs PX 5000"),
			call: "release me 7 0", want: "[-1 US+0 stolen]",
		},
		{
			name: "release of a share with a Keep", before: shared, call: "release me 7 9000", want: done,
			after: []string{"lock: #shares, 9000", "shares: it=MS+8 me=MS+9, 10000",
				"claims: #w=(2) it=(h 1 9 MS+8 8000 8 1 ch.it i) me=(k 1 9 MS+9 9000 7 1 ch.me m), 10000", "fence: 8::it, 50000"},
		},
		{
			name:   "release of a share calls the head only when it fits",
			before: append(shared[:6:6], "ZADD line US-2 you", "PEXPIRE line 9000", "HSET claims you 'w 9 9 MS+8 8000 0 0 ch.you y'"),
			call:   "release me 7 0", want: done,
			after: []string{"lock: #shares, 8000", "line: you=US-2, 9000", "shares: it=MS+8, 9000",
				"claims: #w=(1) it=(h 1 9 MS+8 8000 8 1 ch.it i) you=(w 9 9 MS+8 8000 0 0 ch.you y), 9000", "fence: 8::it, 50000"},
		},
	}
}

// ARGV of revoke: ID, a or f, by, why.
func revokeTests() []scriptTest {
	held := []string{"SET lock me:7 PX 5000", "SET fence 7::me PX 50000"}
	var many []string
	for i := range 16 {
		many = append(many, fmt.Sprintf("HSET claims !id%02d 'f US-1 MS+9 0 '", i))
	}
	index := func(from, to int) (s string) {
		for i := from; i < to; i++ {
			s += fmt.Sprintf("4:id%02d", i)
		}
		return s
	}
	return []scriptTest{
		{
			name: "revoke asks", before: held, call: "revoke me a bob 'please let go'", want: "[1 US+0]",
			after: []string{"lock: me:7, 5000", "claims: !me=(a US+0 MS+3600 3 bobplease let go) #n=(2:me), 3600000", "fence: 7::me, 50000"},
		},
		{
			name: "revoke forces", before: held, call: "revoke me f bob why", want: "[1 US+0]",
			after: []string{"claims: !me=(f US+0 MS+3600 3 bobwhy) #n=(2:me), 3600000", "fence: 7::me, 50000"},
		},
		{
			name: "revoke forces out what was released with a Keep", before: []string{"SET lock me:7:kept PX 5000"}, call: "revoke me f '' ''", want: "[1 US+0]",
			after: []string{"claims: !me=(f US+0 MS+3600 0 ) #n=(2:me), 3600000"},
		},
		{name: "revoke of another", before: held, call: "revoke you f bob why", want: "[-1 US+0 stolen]"},
		{name: "revoke of nobody", before: held[1:], call: "revoke me f bob why", want: "[-1 US+0 expired]"},
		{name: "revoke asks a foreign holder", before: []string{"SET lock theirs PX 5000"}, call: "revoke theirs a bob why", want: "[-2 US+0]"},
		{name: "revoke forces a foreign holder", before: []string{"SET lock theirs PX 5000"}, call: "revoke theirs f bob why", want: "[1 US+0]", after: []string{}},
		{
			name: "revoke forces out a share, and calls the next",
			before: []string{"SET lock #shares PX 8000", "SET fence 7::me PX 50000", "ZADD shares MS+8 me", "ZADD line US-1 you",
				"HSET claims me 'h 1 9 MS+8 8000 7 1 ch.me m' you 'w 9 9 MS+8 8000 0 0 ch.you y' #w 1", "PEXPIRE claims 9000", "PEXPIRE shares 9000", "PEXPIRE line 9000"},
			call: "revoke me f bob why", want: "[1 US+0]", heard: "ch.you: go you",
			after: []string{"line: you=US-1, 9000",
				"claims: !me=(f US+0 MS+3600 3 bobwhy) #n=(2:me) you=(c 9 9 MS+1 8000 0 0 ch.you y), 3600000", "fence: 7::me, 50000"},
		},
		{
			name: "revoke forgets the oldest of 16", before: append(append(held[:2:2], many...), "HSET claims #n "+index(0, 16), "PEXPIRE claims 9000"),
			call: "revoke me a bob why", want: "[1 US+0]",
			after: []string{"lock: me:7, 5000", "claims: " + func() string {
				var all []string
				for i := 1; i < 16; i++ {
					all = append(all, fmt.Sprintf("!id%02d=(f US-1 MS+9 0 )", i))
				}
				return strings.Join(all, " ")
			}() + " !me=(a US+0 MS+3600 3 bobwhy) #n=(" + index(1, 16) + "2:me), 3600000", "fence: 7::me, 50000"},
		},
	}
}

// ARGV of inspect: limit.
func inspectTests() []scriptTest {
	return []scriptTest{
		{name: "inspect nothing", call: "inspect 10", want: "[US+0  -2  -2 0 [] 0 [] []]"},
		{name: "inspect a holder", before: []string{"SET lock me:7 PX 5000", "SET fence 7::me PX 50000"}, call: "inspect 10", want: "[US+0 me:7 5000 7::me 50000 0 [] 0 [] []]"},
		{name: "inspect a foreign holder", before: []string{"SET lock theirs"}, call: "inspect 10", want: "[US+0 theirs -1  -2 0 [] 0 [] []]"},
		{
			name: "inspect shares, a line and notices",
			before: []string{"SET lock #shares PX 8000", "SET fence 7::me PX 50000", "ZADD shares MS-1 dead MS+8 me", "ZADD line US-3 gone US-2 you US-1 it",
				"HSET claims me 'h 1 9 MS+8 8000 7 1 ch.me m' dead 'h 1 9 MS-1 8000 6 1 ch.d d' #w 2 you 'w 9 9 MS+8 8000 0 0 ch.you y' it 'w 9 9 MS+8 8000 0 0 ch.it i' gone 'w 9 9 MS-1 8000 0 0 ch.g g' !x 'f US-5 MS+9 3 bobwhy' !y 'a US-5 MS-1 3 bobwhy' #n 1:x1:y",
				"PEXPIRE claims 9000", "PEXPIRE shares 9000", "PEXPIRE line 9000"},
			call: "inspect 1",
			want: "[US+0 #shares 8000 7::me 50000 1 [me h 1 9 MS+8 8000 7 1 ch.me m] 2 [you w 9 9 MS+8 8000 0 0 ch.you y US-2] [f US-5 bob why]]",
		},
		{
			name: "inspect without the line",
			before: []string{"SET lock #shares PX 8000", "ZADD shares MS+8 me", "ZADD line US-3 gone US-2 you",
				"HSET claims me 'h 1 9 MS+8 8000 7 1 ch.me m' #w 1 you 'w 9 9 MS+8 8000 0 0 ch.you y' gone 'w 9 9 MS-1 8000 0 0 ch.g g'",
				"PEXPIRE claims 9000", "PEXPIRE shares 9000", "PEXPIRE line 9000"},
			call: "inspect 0", want: "[US+0 #shares 8000  -2 1 [] 2 [] []]",
		},
	}
}
