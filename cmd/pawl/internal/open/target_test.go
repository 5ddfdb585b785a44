package open_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlock/pawl/cmd/pawl/internal/open"
)

// Case V68.
func TestURLsAreTakenApart(t *testing.T) {
	const pw = "s3cret"
	for _, test := range []struct {
		raw  string
		want open.Target
		text string
	}{
		{"file:///var/lib/pawl", open.Target{Scheme: open.File, Path: "/var/lib/pawl"}, "file:///var/lib/pawl"},
		{"file:///a%20b", open.Target{Scheme: open.File, Path: "/a b"}, "file:///a%20b"},
		{"file:///100%", open.Target{Scheme: open.File, Path: "/100%"}, "file:///100%25"},
		{"mem://", open.Target{Scheme: open.Memory}, "mem://"},
		{"redis://h", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}}, "redis://h:6379/0"},
		{"REDIS://h/", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}}, "redis://h:6379/0"},
		{"redis://", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"localhost", 6379}}}, "redis://localhost:6379/0"},
		{"redis://r-1.example.com:7000/3", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"r-1.example.com", 7000}}, DB: 3}, "redis://r-1.example.com:7000/3"},
		{"redis://10.0.0.1:6380", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"10.0.0.1", 6380}}}, "redis://10.0.0.1:6380/0"},
		{"redis://[::1]", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"::1", 6379}}}, "redis://[::1]:6379/0"},
		{"redis://u:p@[2001:db8::1]:7000/2", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"2001:db8::1", 7000}}, DB: 2, User: "u", Password: "p", HasPassword: true}, "redis://[2001:db8::1]:7000/2"},
		{"redis://[fe80::1%25eth0]:1", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"fe80::1%eth0", 1}}}, "redis://[fe80::1%25eth0]:1/0"},
		{"redis://alice@h", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}, User: "alice"}, "redis://h:6379/0"},
		{"redis://:@h", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}, HasPassword: true}, "redis://h:6379/0"},
		{"rediss://:" + pw + "@h/1", open.Target{Scheme: open.RedisTLS, Hosts: []open.Host{{"h", 6379}}, DB: 1, Password: pw, HasPassword: true}, "rediss://h:6379/1"},
		{"redis://:a#b@h", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}, Password: "a#b", HasPassword: true}, "redis://h:6379/0"},
		{"redis://:a@b@h", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}, Password: "a@b", HasPassword: true}, "redis://h:6379/0"},
		{"redis://:a?b=c@h", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}, Password: "a?b=c", HasPassword: true}, "redis://h:6379/0"},
		{"redis://:se%cret@h", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}, Password: "se%cret", HasPassword: true}, "redis://h:6379/0"},
		{"redis://:100%@h", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}, Password: "100%", HasPassword: true}, "redis://h:6379/0"},
		{"redis://:a%2Fb%40c%25@h", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}, Password: "a/b@c%", HasPassword: true}, "redis://h:6379/0"},
		{"redis://u%3Av:a:b@h", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}, User: "u:v", Password: "a:b", HasPassword: true}, "redis://h:6379/0"},
		{"rediss://h?ca=/etc/ca.pem&cert=c%40d&key=/k=&insecure=false", open.Target{Scheme: open.RedisTLS, Hosts: []open.Host{{"h", 6379}},
			TLS: open.TLS{CA: "/etc/ca.pem", Cert: "c@d", Key: "/k="}}, "rediss://h:6379/0?ca=/etc/ca.pem&cert=c%40d&key=/k%3D"},
		{"rediss://:a?b@h/2?insecure=1", open.Target{Scheme: open.RedisTLS, Hosts: []open.Host{{"h", 6379}}, DB: 2, Password: "a?b", HasPassword: true,
			TLS: open.TLS{Insecure: true}}, "rediss://h:6379/2?insecure=true"},
		{"redis://h?quarantine=90s", open.Target{Scheme: open.Redis, Hosts: []open.Host{{"h", 6379}}, Quarantine: 90 * time.Second}, "redis://h:6379/0?quarantine=1m30s"},
		{"redis+sentinel://s1,s2:7,[::1]/mymaster", open.Target{Scheme: open.Sentinel, Hosts: []open.Host{{"s1", 26379}, {"s2", 7}, {"::1", 26379}}, Master: "mymaster"},
			"redis+sentinel://s1:26379,s2:7,[::1]:26379/mymaster/0"},
		{"redis+sentinel://u:" + pw + "@s1/my%2Fmaster/3?sentinel_username=su&sentinel_password=" + pw, open.Target{Scheme: open.Sentinel, Hosts: []open.Host{{"s1", 26379}},
			Master: "my/master", DB: 3, User: "u", Password: pw, HasPassword: true, SentinelUser: "su", SentinelPassword: pw}, "redis+sentinel://s1:26379/my%2Fmaster/3"},
		{"redis-sentinel://:" + pw + "@s1:26379,s2:26379/3?sentinelMasterId=m", open.Target{Scheme: open.Sentinel, Hosts: []open.Host{{"s1", 26379}, {"s2", 26379}},
			Master: "m", DB: 3, Password: pw, HasPassword: true}, "redis+sentinel://s1:26379,s2:26379/m/3"},
		{"redis-sentinel://s1,s2/3#m", open.Target{Scheme: open.Sentinel, Hosts: []open.Host{{"s1", 26379}, {"s2", 26379}}, Master: "m", DB: 3}, "redis+sentinel://s1:26379,s2:26379/m/3"},
		{"redis-sentinel://s1#m", open.Target{Scheme: open.Sentinel, Hosts: []open.Host{{"s1", 26379}}, Master: "m"}, "redis+sentinel://s1:26379/m/0"},
		{"redis-sentinel://s1/m", open.Target{Scheme: open.Sentinel, Hosts: []open.Host{{"s1", 26379}}, Master: "m"}, "redis+sentinel://s1:26379/m/0"},
		{"rediss+sentinel://s1?ca=/ca&sentinelMasterId=m", open.Target{Scheme: open.SentinelTLS, Hosts: []open.Host{{"s1", 26379}}, Master: "m", TLS: open.TLS{CA: "/ca"}},
			"rediss+sentinel://s1:26379/m/0?ca=/ca"},
		{"redis+cluster://h1,h2:7", open.Target{Scheme: open.Cluster, Hosts: []open.Host{{"h1", 6379}, {"h2", 7}}}, "redis+cluster://h1:6379,h2:7"},
		{"rediss+cluster://u:p@h1/0?insecure=true", open.Target{Scheme: open.ClusterTLS, Hosts: []open.Host{{"h1", 6379}}, User: "u", Password: "p", HasPassword: true,
			TLS: open.TLS{Insecure: true}}, "rediss+cluster://h1:6379?insecure=true"},
		{"redlock://u:p@h1,h2:7/1?quarantine=60s", open.Target{
			Scheme: open.Redlock, Hosts: []open.Host{{"h1", 6379}, {"h2", 7}}, DB: 1, Quarantine: time.Minute,
			Nodes: []*open.Target{
				{Scheme: open.Redis, Hosts: []open.Host{{"h1", 6379}}, DB: 1, Quarantine: time.Minute, User: "u", Password: "p", HasPassword: true},
				{Scheme: open.Redis, Hosts: []open.Host{{"h2", 7}}, DB: 1, Quarantine: time.Minute, User: "u", Password: "p", HasPassword: true},
			},
		}, "redlock+redis://h1:6379,h2:7/1?quarantine=1m0s"},
		{"redlock+rediss://h1?ca=/ca", open.Target{
			Scheme: open.RedlockTLS, Hosts: []open.Host{{"h1", 6379}}, TLS: open.TLS{CA: "/ca"},
			Nodes: []*open.Target{{Scheme: open.RedisTLS, Hosts: []open.Host{{"h1", 6379}}, TLS: open.TLS{CA: "/ca"}}},
		}, "redlock+rediss://h1:6379/0?ca=/ca"},
		{"zk://z1,z2:7", open.Target{Scheme: open.ZooKeeper, Hosts: []open.Host{{"z1", 2181}, {"z2", 7}}}, "zk://z1:2181,z2:7"},
		{"zk://u:" + pw + "@z1/a%2Fb/c%40d/?session=20s&tick=500ms", open.Target{Scheme: open.ZooKeeper, Hosts: []open.Host{{"z1", 2181}}, Path: "/a/b/c@d",
			User: "u", Password: pw, HasPassword: true, Session: 20 * time.Second, Tick: 500 * time.Millisecond}, "zk://z1:2181/a/b/c%40d?session=20s&tick=500ms"},
		{"zks://[::1]:3/?ca=/ca", open.Target{Scheme: open.ZooKeeperTLS, Hosts: []open.Host{{"::1", 3}}, TLS: open.TLS{CA: "/ca"}}, "zks://[::1]:3?ca=/ca"},
		{"etcd://e1:7,e2", open.Target{Scheme: open.Etcd, Hosts: []open.Host{{"e1", 7}, {"e2", 2379}}}, "etcd://e1:7,e2:2379"},
		{"etcd://u:" + pw + "@e1//locks/a%3Fb%40/", open.Target{Scheme: open.Etcd, Hosts: []open.Host{{"e1", 2379}}, Path: "/locks/a?b@/",
			User: "u", Password: pw, HasPassword: true}, "etcd://e1:2379//locks/a%3Fb%40/"},
		{"etcds://[::1]:3/?ca=/ca&cert=/c&key=/k", open.Target{Scheme: open.EtcdTLS, Hosts: []open.Host{{"::1", 3}}, TLS: open.TLS{CA: "/ca", Cert: "/c", Key: "/k"}},
			"etcds://[::1]:3?ca=/ca&cert=/c&key=/k"},
		{"redis+unix:///run/redis.sock", open.Target{Scheme: open.RedisUnix, Path: "/run/redis.sock"}, "redis+unix:///run/redis.sock"},
		{"unix://:p#q@/run/redis.sock?db=4", open.Target{Scheme: open.RedisUnix, Path: "/run/redis.sock", DB: 4, Password: "p#q", HasPassword: true}, "redis+unix:///run/redis.sock?db=4"},
		{"unix://u@/run/a%40b.sock", open.Target{Scheme: open.RedisUnix, Path: "/run/a@b.sock", User: "u"}, "redis+unix:///run/a@b.sock"},
		{"unix:///run/a@b.sock", open.Target{Scheme: open.RedisUnix, Path: "/run/a@b.sock"}, "redis+unix:///run/a@b.sock"},
	} {
		got, err := open.Parse(test.raw)
		if err != nil {
			t.Errorf("Parse(%q): got error %v, want none", test.raw, err)
			continue
		}
		if !reflect.DeepEqual(*got, test.want) {
			t.Errorf("Parse(%q): got %+v, want %+v", test.raw, *got, test.want)
		}
		if got.String() != test.text {
			t.Errorf("Parse(%q).String(): got %q, want %q", test.raw, got, test.text)
		}
	}
}

func TestBadURLsAreRefusedWithoutShowingThem(t *testing.T) {
	const marker = "MARKER"
	for _, raw := range []string{
		"",
		marker,
		marker + "://h",
		"redis:" + marker,
		"redis:/:" + marker + "@h",
		"http://:" + marker + "@h",
		"redis://:" + marker + "/0",
		"redis://:a/" + marker + "@h/0",
		"redis://:1/" + marker + "@h",
		"redis://:" + marker + "@h:port",
		"redis://:" + marker + "@h:0",
		"redis://:" + marker + "@h:65536",
		"redis://:" + marker + "@h:1:2",
		"redis://:" + marker + "@h1:1,h2:2",
		"redis://:" + marker + "@h1,h2",
		"redis://:" + marker + "@::1",
		"redis://:" + marker + "@[::1",
		"redis://:" + marker + "@[::1]x",
		"redis://:" + marker + "@[h]",
		"redis://:" + marker + "@h/x",
		"redis://:" + marker + "@h/-1",
		"redis://:" + marker + "@h/1000000",
		"rediss://:a?b/" + marker + "@h/2?insecure=1",
		"redis-sentinel://s1#" + marker + "%20",
		"redis+sentinel://:" + marker + "@s1",
		"redis+sentinel://:" + marker + "@s1/",
		"redis+sentinel://:" + marker + "@s1/m/x",
		"redis+sentinel://:" + marker + "@s1/m%0A",
		"redis+sentinel://:" + marker + "@s1,/m",
		"redis+sentinel://s1/m?sentinel_password=@" + marker,
		"redis+sentinel://s1/m?sentinel_password=" + marker + "&sentinel_password=x",
		"redis+sentinel://s1/m?sentinel_password=" + marker + "&x=y",
		"redis+sentinel://s1/m?sentinelMasterId=a&sentinelMasterId=" + marker,
		"redis+cluster://:" + marker + "@h1,h2/1",
		"redis+cluster://:" + marker + "@h1/x",
		"redis+cluster://h1?quarantine=" + marker,
		"redis+cluster://,?x=" + marker,
		"redlock://:" + marker + "@h1,,h2",
		"redlock://:" + marker + "@h1;h2",
		"redis://:" + marker + "@h?ca=/ca",
		"rediss://h?cert=" + marker,
		"rediss://h?key=" + marker,
		"rediss://h?insecure=" + marker,
		"rediss://h?ca=%00" + marker,
		"rediss://h?ca=&insecure=" + marker,
		"redis://h?quarantine=" + marker,
		"redis://h?quarantine=-1s" + marker,
		"redis://h/0?password=" + marker,
		"redis://h?" + marker,
		"redis://h#" + marker,
		"redis://:" + marker + " @ h",
		"unix://" + marker,
		"unix://:" + marker + "/x@/run/redis.sock",
		"unix://:@/" + marker + "@/run/redis.sock",
		"unix:///run/redis.sock?db=" + marker,
		"unix:///run/redis.sock?password=" + marker,
		"file://" + marker + "/x",
		"file://",
		"file:///a\x00" + marker,
		"file:///a%00" + marker,
		"mem://" + marker,
		"etcd://:" + marker + "@e1,,e2",
		"etcd://u:" + marker + "@e1:x",
		"etcd://u:" + marker + "@e1/%FF",
		"etcd://e1?quarantine=1m" + marker,
		"etcd://e1?session=1m" + marker,
		"etcd://e1?ca=/" + marker,
		"zk://:" + marker + "@z1,,z2",
		"zk://u:" + marker + "@z1/a//b",
		"zk://u:" + marker + "@z1/../b",
		"zk://u:" + marker + "@z1/a%0A",
		"zk://z1?session=" + marker,
		"zk://z1?tick=-1s",
		"zk://z1?quarantine=1m" + marker,
		"zk://z1?ca=/" + marker,
	} {
		got, err := open.Parse(raw)
		if err == nil {
			t.Errorf("Parse(%q): got %+v, want an error", raw, got)
			continue
		}
		if strings.Contains(err.Error(), marker) {
			t.Errorf("Parse(%q): the error shows it: %v", raw, err)
		}
	}
}

// FuzzNoPasswordIsEverShown puts a password into a URL whose other parts are
// anything: it is in no error, and in no text of the URL. Only the user
// information may hold it: what the fuzzer must not do is move it elsewhere.
// Case V67.
func FuzzNoPasswordIsEverShown(f *testing.F) {
	const marker = "MARKER"
	for _, scheme := range []string{"redis", "rediss", "redis+unix", "unix", "file", "mem", "http", "",
		"redis+sentinel", "redis-sentinel", "rediss+sentinel", "redis+cluster", "redlock", "redlock+rediss", "etcd", "etcds", "zk", "zks"} {
		f.Add(scheme, "user", "", "", "host:6379/0")
		f.Add(scheme, "", "a#", "@%", "[::1]:1/x?y=z@")
		f.Add(scheme, "", "a/", "/b", "h,i:1")
		f.Add(scheme, "u", "1/", "", "/run/redis.sock?db=1")
		f.Add(scheme, "u", "?", "&", "h1,h2:1/m/0?ca=/ca&sentinel_username=x&insecure=1&quarantine=1m#n")
		f.Add(scheme, "u", "", "", "h1,[::1]:1?sentinelMasterId=m&cert=/c&key=/k")
		f.Add(scheme, "u", "", "", "h1,h2:1/a%20b/%40?session=40s&tick=2s")
	}
	f.Fuzz(func(t *testing.T, scheme, user, before, after, rest string) {
		if strings.ContainsAny(user, ":/@") || strings.Contains(scheme+user+rest, marker) {
			t.Skip("another URL: the password would not begin after the first colon")
		}
		if strings.EqualFold(scheme, "file") {
			t.Skip("a file URL has no password: it is a path from end to end")
		}
		raw := scheme + "://" + user + ":" + before + marker + after + "@" + rest
		target, err := open.Parse(raw)
		if err != nil {
			if strings.Contains(err.Error(), marker) {
				t.Errorf("Parse(%q): the error shows the password: %v", raw, err)
			}
			return
		}
		if strings.Contains(target.String(), marker) {
			t.Errorf("Parse(%q): the text shows the password: %v", raw, target)
		}
		again, err := open.Parse(target.String())
		if err != nil {
			t.Errorf("Parse(%q): its own text %q is not read back: %v", raw, target, err)
			return
		}
		if again.String() != target.String() {
			t.Errorf("Parse(%q): its text changes when read back: %q, then %q", raw, target, again)
		}
	})
}

// FuzzNoParameterIsEverShown does the same for a password among the parameters.
func FuzzNoParameterIsEverShown(f *testing.F) {
	const marker = "MARKER"
	f.Add("redis+sentinel", "s1,s2/m", "", "")
	f.Add("redis-sentinel", "s1/0", "sentinelMasterId=m&", "&sentinel_username=u")
	f.Add("rediss", "h", "ca=/ca&", "#x")
	f.Fuzz(func(t *testing.T, scheme, hosts, before, after string) {
		if strings.ContainsAny(hosts, "?#") || strings.HasPrefix(scheme, "file") || strings.HasPrefix(scheme, "FILE") || strings.Contains(scheme+hosts+before+after, marker) {
			t.Skip("another URL")
		}
		raw := scheme + "://" + hosts + "?" + before + "sentinel_password=" + marker + after
		target, err := open.Parse(raw)
		switch {
		case err != nil && strings.Contains(err.Error(), marker):
			t.Errorf("Parse(%q): the error shows the password: %v", raw, err)
		case err == nil && target.SentinelPassword != "" && strings.Contains(target.String(), marker):
			t.Errorf("Parse(%q): the text shows the password: %v", raw, target)
		}
	})
}

func TestSeveralURLsAreAQuorum(t *testing.T) {
	parse := func(raws ...string) (list []*open.Target) {
		for _, raw := range raws {
			target, err := open.Parse(raw)
			if err != nil {
				t.Fatalf("Parse(%q): %v", raw, err)
			}
			list = append(list, target)
		}
		return list
	}
	got, err := open.Join(parse("redis://:a@h1", "redis://:b@h2:7", "redis://h3"))
	if err != nil || got.String() != "redlock+redis://h1:6379,h2:7,h3:6379/0" || len(got.Servers()) != 3 || got.Servers()[1].Password != "b" {
		t.Errorf("Join of three servers: got %v, %v, want a quorum with a password for each", got, err)
	}
	if got, err := open.Join(parse("rediss://h1?ca=/ca", "rediss://h2?ca=/ca")); err != nil || got.String() != "redlock+rediss://h1:6379,h2:6379/0?ca=/ca" {
		t.Errorf("Join of two servers with TLS: got %v, %v", got, err)
	}
	if got, err := open.Join(parse("mem://")); err != nil || got.Scheme != open.Memory {
		t.Errorf("Join of one: got %v, %v, want that one", got, err)
	}
	for _, raws := range [][]string{
		{"redis://h1", "rediss://h2"}, {"redis://h1", "redis://h2/1"}, {"redis://h1", "file:///x"}, {"file:///x", "file:///y"},
		{"rediss://h1?ca=/a", "rediss://h2?ca=/b"}, {"redis://h1", "redlock://h2,h3"}, {"redis://h1", "redis://h2?quarantine=1m"},
	} {
		if got, err := open.Join(parse(raws...)); err == nil {
			t.Errorf("Join of %q: got %v, want an error", raws, got)
		}
	}
}
