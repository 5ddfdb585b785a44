package goredis_test

import "slices"

// ARGV of acquire: ID, TTL, weight, capacity, deadline, queue, block, floor,
// channel, label.
func acquireTests() []scriptTest {
	return []scriptTest{
		{
			name:  "acquire a free key",
			call:  "acquire me 10000 1 1 0 0 1 0 ch.me label",
			want:  "[1 US+0 US+0 1]",
			after: []string{"lock: me:US+0, 10000", "fence: US+0::me, 86400000"},
		},
		{
			name:  "acquire for long keeps the fence ten times as long",
			call:  "acquire me 20000000 1 1 0 0 1 0 ch.me label",
			want:  "[1 US+0 US+0 1]",
			after: []string{"lock: me:US+0, 20000000", "fence: US+0::me, 200000000"},
		},
		{
			name:   "acquire after a token ahead of the clock",
			before: []string{"SET fence US+100::you PX 50000"},
			call:   "acquire me 10000 1 1 0 0 1 0 ch.me label",
			want:   "[1 US+0 US+100 1]",
			after:  []string{"lock: me:US+100, 10000", "fence: US+100::me, 86400000"},
		},
		{
			name:   "acquire a block after another incarnation's token",
			before: []string{"SET fence 41:0123abcd:you PX 50000"},
			call:   "acquire me 10000 1 1 0 0 5 50 ch.me label",
			want:   "[1 US+0 50 5]",
			after:  []string{"lock: me:50, 10000", "fence: 54::me, 86400000"},
		},
		{
			name:   "acquire with a candidate that is behind",
			before: []string{"SET fence 41::you PX 50000"},
			call:   "acquire me 10000 1 1 0 0 1 30 ch.me label",
			want:   "[1 US+0 42 1]",
			after:  []string{"lock: me:42, 10000", "fence: 42::me, 86400000"},
		},
		{
			name:   "acquire with a candidate too far ahead",
			before: []string{"SET fence 41::you PX 50000"},
			call:   "acquire me 10000 1 1 0 0 1 US+5 ch.me label",
			want:   "[1 US+0 42 1]",
			after:  []string{"lock: me:42, 10000", "fence: 42::me, 86400000"},
		},
		{
			name:  "acquire with a candidate and no fence",
			call:  "acquire me 10000 1 1 0 0 1 7 ch.me label",
			want:  "[1 US+0 US-1 1]",
			after: []string{"lock: me:US-1, 10000", "fence: US-1::me, 86400000"},
		},
		{
			name:   "acquire what is held",
			before: []string{"SET lock you:7 PX 5000", "SET fence 7::you PX 50000"},
			call:   "acquire me 10000 1 1 0 0 1 0 ch.me label",
			want:   "[0 US+0 0 5000 7 1 you:7 ]",
		},
		{
			name:   "acquire what a foreign client holds for ever",
			before: []string{"SET lock theirs"},
			call:   "acquire me 10000 1 1 0 0 1 0 ch.me label",
			want:   "[0 US+0 0 -1 0 1 theirs ]",
		},
		{
			name:   "acquire again restarts the TTL",
			before: []string{"SET lock me:7 PX 5000", "SET fence 7::me PX 50000"},
			call:   "acquire me 10000 1 1 0 0 1 0 ch.me label",
			want:   "[1 US+0 7 1]",
			after:  []string{"lock: me:7, 10000", "fence: 7::me, 86400000"},
		},
		{
			name:   "acquire a block again",
			before: []string{"SET lock me:7 PX 5000", "SET fence 11::me PX 50000"},
			call:   "acquire me 10000 1 1 0 0 5 0 ch.me label",
			want:   "[1 US+0 7 5]",
			after:  []string{"lock: me:7, 10000", "fence: 11::me, 86400000"},
		},
		{
			name:   "acquire again brings the notice",
			before: []string{"SET lock me:7 PX 5000", "SET fence 7::me PX 50000", "HSET claims !me 'a US-1 MS+9 3 bobplease let go' #n 2:me", "PEXPIRE claims 9000"},
			call:   "acquire me 10000 1 1 0 0 1 0 ch.me label",
			want:   "[1 US+0 7 1 a US-1 bob please let go]",
			after:  []string{"lock: me:7, 10000", "claims: !me=(a US-1 MS+9 3 bobplease let go) #n=(2:me), 9000", "fence: 7::me, 86400000"},
		},
		{
			name:   "acquire what was released with a Keep",
			before: []string{"SET lock me:7:kept PX 5000", "SET fence 7::me PX 50000"},
			call:   "acquire me 10000 1 1 0 0 1 0 ch.me label",
			want:   "[-1 US+0 expired]",
		},
		{
			name:   "acquire after the end",
			before: []string{"SET fence 7::me PX 50000"},
			call:   "acquire me 10000 1 1 0 1 1 0 ch.me label",
			want:   "[-1 US+0 expired]",
		},
		{
			name:   "acquire after the end, taken by a foreign client",
			before: []string{"SET lock theirs PX 5000", "SET fence 7::me PX 50000"},
			call:   "acquire me 10000 1 1 0 1 1 0 ch.me label",
			want:   "[-1 US+0 stolen]",
		},
		{
			name:   "acquire after it was forced out",
			before: []string{"SET lock you:8 PX 5000", "SET fence 8::you PX 50000", "HSET claims !me 'f US-1 MS+9 3 bobwhy' #n 2:me", "PEXPIRE claims 9000"},
			call:   "acquire me 10000 1 1 0 1 1 0 ch.me label",
			want:   "[-1 US+0 forced f US-1 bob why]",
		},
		{
			name:   "acquire with the ID of another, and more",
			before: []string{"SET lock me:7:kept:8 PX 5000", "SET fence 8::me:7:kept PX 50000"},
			call:   "acquire me 10000 1 1 0 0 1 0 ch.me label",
			want:   "[0 US+0 0 5000 8 1 me:7:kept:8 ]",
		},
		{
			name: "acquire too late",
			call: "acquire me 10000 1 1 US-1 1 1 0 ch.me label",
			want: "[-2 US+0]",
		},
		{
			name:   "acquire just in time",
			before: []string{"SET lock you:7 PX 5000"},
			call:   "acquire me 10000 1 1 US+1 0 1 0 ch.me label",
			want:   "[0 US+0 0 5000 0 1 you:7 ]",
		},
		{
			name:   "acquire the name of a list",
			before: []string{"RPUSH lock a"},
			call:   "acquire me 10000 1 1 0 0 1 0 ch.me label",
			want:   "WRONGTYPE",
		},
		{
			name:   "acquire with an unreadable fence",
			before: []string{"SET fence nonsense PX 50000"},
			call:   "acquire me 10000 1 1 0 0 1 0 ch.me label",
			want:   "BADFENCE",
		},
		{
			name:   "acquire when the tokens have run out",
			before: []string{"SET fence 9007199254740990::you PX 50000"},
			call:   "acquire me 10000 1 1 0 0 1 0 ch.me label",
			want:   "FENCEOVERFLOW",
		},
	}
}

func sharesTests() []scriptTest {
	held := []string{
		"SET lock #shares PX 8000", "SET fence 7::you PX 50000", "ZADD shares MS+8 you",
		"HSET claims you 'h 2 3 MS+8 8000 7 1 ch.you y' #w 2", "PEXPIRE claims 9000", "PEXPIRE shares 9000",
	}
	return []scriptTest{
		{
			name: "acquire the first share",
			call: "acquire me 10000 2 3 0 1 1 0 ch.me 'my label'",
			want: "[1 US+0 US+0 1]",
			after: []string{"lock: #shares, 10000", "shares: me=MS+10, 11000",
				"claims: #w=(2) me=(h 2 3 MS+10 10000 US+0 1 ch.me my label), 11000", "fence: US+0::me, 86400000"},
		},
		{
			name: "acquire another share, which ends before the first", before: held,
			call: "acquire me 5000 1 3 0 1 1 8 ch.me m",
			want: "[1 US+0 8 1]",
			after: []string{"lock: #shares, 8000", "shares: me=MS+5 you=MS+8, 9000",
				"claims: #w=(3) me=(h 1 3 MS+5 5000 8 1 ch.me m) you=(h 2 3 MS+8 8000 7 1 ch.you y), 9000", "fence: 8::me, 86400000"},
		},
		{
			name: "acquire a share too many", before: held,
			call: "acquire me 10000 2 3 0 0 1 0 ch.me m",
			want: "[0 US+0 0 8000 7 2 you h 2 3 MS+8 8000 7 1 ch.you y]",
		},
		{
			name: "acquire all of what is shared", before: held,
			call: "acquire me 10000 3 3 0 0 1 0 ch.me m",
			want: "[0 US+0 0 8000 7 2 you h 2 3 MS+8 8000 7 1 ch.you y]",
		},
		{
			name: "acquire a share again", before: held,
			call: "acquire you 10000 2 3 0 0 1 0 ch.you y",
			want: "[1 US+0 7 1]",
			after: []string{"lock: #shares, 10000", "shares: you=MS+10, 11000",
				"claims: #w=(2) you=(h 2 3 MS+10 10000 7 1 ch.you y), 11000", "fence: 7::you, 86400000"},
		},
		{
			name: "acquire less of a share again", before: held,
			call: "acquire you 10000 1 3 0 0 1 0 ch.you y",
			want: "[1 US+0 7 1]",
			after: []string{"lock: #shares, 10000", "shares: you=MS+10, 11000",
				"claims: #w=(1) you=(h 1 3 MS+10 10000 7 1 ch.you y), 11000", "fence: 7::you, 86400000"},
		},
		{
			name: "acquire more of a share again", before: held,
			call: "acquire you 10000 3 3 0 0 1 0 ch.you y",
			want: "[1 US+0 7 1]",
			after: []string{"lock: #shares, 10000", "shares: you=MS+10, 11000",
				"claims: #w=(2) you=(h 2 3 MS+10 10000 7 1 ch.you y), 11000", "fence: 7::you, 86400000"},
		},
		{
			name: "acquire a share of what is held exclusively calls the next",
			before: []string{"SET lock me:7 PX 5000", "SET fence 7::me PX 50000", "ZADD line US-1 you",
				"HSET claims you 'w 1 9 MS+8 8000 0 0 ch.you y'", "PEXPIRE claims 9000", "PEXPIRE line 9000"},
			call:  "acquire me 10000 1 9 0 0 1 0 ch.me m",
			want:  "[1 US+0 7 1]",
			heard: "ch.you: go you",
			after: []string{"lock: #shares, 10000", "line: you=US-1, 9000", "shares: me=MS+10, 11000",
				"claims: #w=(1) me=(h 1 9 MS+10 10000 7 1 ch.me m) you=(c 1 9 MS+1 8000 0 0 ch.you y), 11000", "fence: 7::me, 86400000"},
		},
		{
			name: "acquire after a share has ended",
			before: []string{"SET lock #shares PX 8000", "SET fence 8::it PX 50000", "ZADD shares MS-1 you MS+8 it",
				"HSET claims you 'h 2 3 MS-1 8000 7 1 ch.you y' it 'h 1 3 MS+8 8000 8 1 ch.it i' #w 3", "PEXPIRE claims 9000", "PEXPIRE shares 9000"},
			call: "acquire me 5000 2 3 0 0 1 9 ch.me m",
			want: "[1 US+0 9 1]",
			after: []string{"lock: #shares, 8000", "shares: me=MS+5 it=MS+8, 9000",
				"claims: #w=(3) it=(h 1 3 MS+8 8000 8 1 ch.it i) me=(h 2 3 MS+5 5000 9 1 ch.me m), 9000", "fence: 9::me, 86400000"},
		},
		{
			name: "acquire after somebody has deleted the lock", before: append(held[1:len(held):len(held)], "DEL lock"),
			call:  "acquire me 5000 1 1 0 0 1 8 ch.me m",
			want:  "[1 US+0 8 1]",
			after: []string{"lock: me:8, 5000", "fence: 8::me, 86400000"},
		},
		{
			name: "acquire a share that was released with a Keep",
			before: []string{"SET lock #shares PX 8000", "SET fence 7::you PX 50000", "ZADD shares MS+8 you",
				"HSET claims you 'k 2 3 MS+8 8000 7 1 ch.you y' #w 2", "PEXPIRE claims 9000", "PEXPIRE shares 9000"},
			call: "acquire you 10000 2 3 0 0 1 0 ch.you y",
			want: "[-1 US+0 expired]",
		},
	}
}

func lineTests() []scriptTest {
	waiting := []string{
		"SET lock it:7 PX 5000", "SET fence 7::it PX 50000", "ZADD line US-2 you",
		"HSET claims you 'w 1 1 MS+8 8000 0 0 ch.you y'", "PEXPIRE claims 9000", "PEXPIRE line 9000",
	}
	free := slices.Clip(append(waiting[1:len(waiting):len(waiting)], "DEL lock"))
	return []scriptTest{
		{
			name: "acquire in line", before: waiting,
			call: "acquire me 10000 1 1 0 1 1 0 ch.me m",
			want: "[0 US+0 2 5000 7 1 it:7 ]",
			after: []string{"lock: it:7, 5000", "line: you=US-2 me=US+0, 11000",
				"claims: me=(w 1 1 MS+10 10000 0 0 ch.me m) you=(w 1 1 MS+8 8000 0 0 ch.you y), 11000", "fence: 7::it, 50000"},
		},
		{
			name: "acquire in line behind one that came later", before: append(waiting[:len(waiting):len(waiting)], "ZADD line US+50 you"), // E05
			call: "acquire me 5000 1 1 0 1 1 0 ch.me m",
			want: "[0 US+0 2 5000 7 1 it:7 ]",
			after: []string{"lock: it:7, 5000", "line: you=US+50 me=US+50, 9000",
				"claims: me=(w 1 1 MS+5 5000 0 0 ch.me m) you=(w 1 1 MS+8 8000 0 0 ch.you y), 9000", "fence: 7::it, 50000"},
		},
		{
			name: "acquire in line again", before: waiting,
			call: "acquire you 10000 1 1 0 1 1 0 ch.you y",
			want: "[0 US+0 1 5000 7 1 it:7 ]",
			after: []string{"lock: it:7, 5000", "line: you=US-2, 11000",
				"claims: you=(w 1 1 MS+10 10000 0 0 ch.you y), 11000", "fence: 7::it, 50000"},
		},
		{
			name: "acquire for the last time leaves the line", before: waiting,
			call:  "acquire you 10000 1 1 0 0 1 0 ch.you y",
			want:  "[0 US+0 0 5000 7 1 it:7 ]",
			after: []string{"lock: it:7, 5000", "fence: 7::it, 50000"},
		},
		{
			name: "acquire at the head of the line", before: free,
			call:  "acquire you 10000 1 1 0 1 1 8 ch.you y",
			want:  "[1 US+0 8 1]",
			after: []string{"lock: you:8, 10000", "fence: 8::you, 86400000"},
		},
		{
			name: "acquire ahead of the line calls its head", before: free,
			call:  "acquire me 10000 1 1 0 0 1 0 ch.me m",
			want:  "[0 US+0 0 1000 7 3 you c 1 1 MS+1 8000 0 0 ch.you y]",
			heard: "ch.you: go you",
			after: []string{"line: you=US-2, 9000", "claims: you=(c 1 1 MS+1 8000 0 0 ch.you y), 9000", "fence: 7::it, 50000"},
		},
		{
			name: "acquire ahead of a head that was called", before: append(free, "HSET claims you 'c 1 1 MS+1 8000 0 0 ch.you y'"),
			call:  "acquire me 5000 1 1 0 1 1 0 ch.me m",
			want:  "[0 US+0 2 1000 7 3 you c 1 1 MS+1 8000 0 0 ch.you y]",
			after: []string{"line: you=US-2 me=US+0, 9000", "claims: me=(w 1 1 MS+5 5000 0 0 ch.me m) you=(c 1 1 MS+1 8000 0 0 ch.you y), 9000", "fence: 7::it, 50000"},
		},
		{
			name: "acquire after the head has died", before: append(free, "HSET claims you 'c 1 1 MS-1 8000 0 0 ch.you y'"),
			call:  "acquire me 5000 1 1 0 1 1 8 ch.me m",
			want:  "[1 US+0 8 1]",
			after: []string{"lock: me:8, 5000", "fence: 8::me, 86400000"},
		},
		{
			name: "acquire after its own place has ended", before: append(waiting[:len(waiting):len(waiting)],
				"HSET claims you 'w 1 1 MS-1 8000 0 0 ch.you y' me 'w 1 1 MS+5 5000 0 0 ch.me m'", "ZADD line US-1 me"),
			call: "acquire you 8000 1 1 0 1 1 0 ch.you y",
			want: "[0 US+0 2 5000 7 1 it:7 ]",
			after: []string{"lock: it:7, 5000", "line: me=US-1 you=US+0, 9000",
				"claims: me=(w 1 1 MS+5 5000 0 0 ch.me m) you=(w 1 1 MS+8 8000 0 0 ch.you y), 9000", "fence: 7::it, 50000"},
		},
		{
			name: "acquire a share behind an exclusive claim that waits",
			before: []string{"SET lock #shares PX 8000", "SET fence 7::it PX 50000", "ZADD shares MS+8 it", "ZADD line US-2 you",
				"HSET claims it 'h 1 9 MS+8 8000 7 1 ch.it i' you 'w 9 9 MS+8 8000 0 0 ch.you y' #w 1", "PEXPIRE claims 9000", "PEXPIRE shares 9000", "PEXPIRE line 9000"},
			call: "acquire me 5000 1 9 0 0 1 0 ch.me m",
			want: "[0 US+0 0 8000 7 2 it h 1 9 MS+8 8000 7 1 ch.it i]",
		},
		{
			name: "acquire a share at the head calls the next, and the one after",
			before: []string{"SET fence 7::it PX 50000", "ZADD line US-3 me US-2 you US-1 it",
				"HSET claims me 'c 1 9 MS+1 5000 0 0 ch.me m' you 'w 1 9 MS+8 8000 0 0 ch.you y' it 'w 1 9 MS+8 8000 0 0 ch.it i'", "PEXPIRE claims 9000", "PEXPIRE line 9000"},
			call:  "acquire me 5000 1 9 0 1 1 8 ch.me m",
			want:  "[1 US+0 8 1]",
			heard: "ch.you: go you, ch.it: next it",
			after: []string{"lock: #shares, 5000", "line: you=US-2 it=US-1, 9000", "shares: me=MS+5, 6000",
				"claims: #w=(1) it=(w 1 9 MS+8 8000 0 0 ch.it i) me=(h 1 9 MS+5 5000 8 1 ch.me m) you=(c 1 9 MS+1 8000 0 0 ch.you y), 9000", "fence: 8::me, 86400000"},
		},
	}
}
