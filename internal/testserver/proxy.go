package testserver

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy is a wire between a client and a server that can be cut, held up and
// made to lose what it carries. It ends with the test.
type Proxy struct {
	Addr string // host:port on the loopback interface

	running sync.WaitGroup

	mu       sync.Mutex
	target   string                     // guarded by mu
	closed   bool                       // guarded by mu
	refuse   bool                       // guarded by mu
	conns    map[net.Conn]net.Conn      // client -> server; guarded by mu
	held     [2]time.Time               // until when nothing passes, by direction; guarded by mu
	delay    [2]time.Duration           // how much later everything arrives, by direction; guarded by mu
	drop     [2]bool                    // whether what comes is lost, by direction; guarded by mu
	lost     [2]int                     // how often something was, by direction; guarded by mu
	released map[chan struct{}]struct{} // those who wait for held; guarded by mu
}

// A Direction is what a Proxy does something to.
type Direction int

// The two directions.
const (
	Requests Direction = iota
	Replies
)

// StartProxy starts a proxy for the server at target, host:port.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		Addr: l.Addr().String(), target: target,
		conns: make(map[net.Conn]net.Conn), released: make(map[chan struct{}]struct{}),
	}
	p.running.Go(func() { p.accept(l) })
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		l.Close()
		p.Heal()
		p.Cut()
		p.running.Wait()
	})
	return p
}

// Cut breaks all connections that it has accepted. New ones are welcome.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client, server := range p.conns {
		client.Close()
		server.Close()
	}
}

// Reset breaks them as Cut does, with a reset in place of an orderly end.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client, server := range p.conns {
		for _, c := range []net.Conn{client, server} {
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}
}

// Retarget makes the proxy lead to another server from the next connection on.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Refuse makes the proxy close new connections at once, until Heal.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = true
}

// Blackhole lets nothing pass, either way, until Heal. Nothing is lost.
func (p *Proxy) Blackhole() {
	p.Hold(Requests, time.Hour)
	p.Hold(Replies, time.Hour)
}

// Hold keeps back what comes within d, and delivers it then, also if its
// sender has hung up.
func (p *Proxy) Hold(dir Direction, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[dir] = time.Now().Add(d)
}

// Delay makes everything arrive later by d, until Heal.
func (p *Proxy) Delay(dir Direction, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay[dir] = d
}

// Drop loses all that comes, until Heal.
func (p *Proxy) Drop(dir Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop[dir] = true
}

// Lost returns how often something was lost to Drop.
func (p *Proxy) Lost(dir Direction) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost[dir]
}

// Heal makes the proxy a plain wire again.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = false
	p.held, p.delay, p.drop = [2]time.Time{}, [2]time.Duration{}, [2]bool{}
	for c := range p.released {
		close(c)
	}
	clear(p.released)
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse, target := p.refuse || p.closed, p.target
		p.mu.Unlock()
		if refuse {
			client.Close()
			continue
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		if p.closed {
			client.Close()
			server.Close()
		}
		p.conns[client] = server
		p.mu.Unlock()
		p.running.Go(func() { p.serve(client, server) })
	}
}

func (p *Proxy) serve(client, server net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { p.carry(Requests, client, server) })
	both.Go(func() { p.carry(Replies, server, client) })
	both.Wait()
	client.Close()
	server.Close()
	p.mu.Lock()
	delete(p.conns, client)
	p.mu.Unlock()
}

// carry copies from one end to the other. When the sender hangs up, the
// receiver gets what was sent before, and then learns of it.
func (p *Proxy) carry(dir Direction, from, to net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.pass(dir) {
			if _, err := to.Write(buf[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			to.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

// pass waits until something that came just now may go on, and reports whether
// it does.
func (p *Proxy) pass(dir Direction) bool {
	p.mu.Lock()
	if p.drop[dir] {
		p.lost[dir]++
		p.mu.Unlock()
		return false
	}
	wait := max(p.delay[dir], time.Until(p.held[dir]))
	if wait <= 0 {
		p.mu.Unlock()
		return true
	}
	released := make(chan struct{})
	p.released[released] = struct{}{}
	p.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		p.mu.Lock()
		delete(p.released, released)
		p.mu.Unlock()
	case <-released:
	}
	return true
}
