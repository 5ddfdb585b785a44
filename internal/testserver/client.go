package testserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Client is one connection to a Redis server, for tests that may not import a
// client library. Its methods may be called concurrently; commands take turns.
// After an error that the server did not send it is of no more use.
type Client struct {
	mu   sync.Mutex // held for an exchange
	conn net.Conn
	r    *bufio.Reader
}

// An Error is one that the server sent.
type Error string

// Error implements the error interface.
func (e Error) Error() string { return string(e) }

// RedisError tells it from other errors, as that of client libraries does.
func (Error) RedisError() {}

// Dial connects to host:port, or to the Unix socket at a path.
func Dial(ctx context.Context, addr string) (*Client, error) {
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, r: bufio.NewReader(conn)}, nil
}

// DialTLS connects to host:port over TLS.
func DialTLS(ctx context.Context, addr string, config *tls.Config) (*Client, error) {
	d := tls.Dialer{Config: config}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, r: bufio.NewReader(conn)}, nil
}

// Close ends the connection, and interrupts what waits for an answer.
func (c *Client) Close() error { return c.conn.Close() }

// Do sends a command and returns the answer: a string, an int64, an []any or,
// for no value, nil. It waits until the deadline of ctx.
func (c *Client) Do(ctx context.Context, args ...any) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, _ := ctx.Deadline() // the zero time is none
	if err := c.conn.SetDeadline(d); err != nil {
		return nil, err
	}
	if err := c.send(args); err != nil {
		return nil, err
	}
	return c.read()
}

// Send sends a command without waiting for the answer.
func (c *Client) Send(args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send(args)
}

// Receive returns what the server sends next, within d.
func (c *Client) Receive(d time.Duration) (any, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *Client) send(args []any) error {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		s := fmt.Sprint(a)
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(s), s)
	}
	_, err := c.conn.Write(b)
	return err
}

func (c *Client) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, protocolError(line)
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, Error(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, protocolError(line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			v, err := c.read()
			if e, sent := err.(Error); sent {
				v, err = e, nil // an error inside an array is a value
			}
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	}
	return nil, protocolError(line)
}
