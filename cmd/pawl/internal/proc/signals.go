//go:build unix

package proc

import (
	"os"
	"os/signal"
	"syscall"
)

// Catch delivers the signals that are passed on to a command, and more, except
// those which this process was started to ignore: nohup must stay in force, for this
// process and for its command.
func Catch(more ...os.Signal) <-chan os.Signal {
	signals := make(chan os.Signal, 64)
	for _, s := range append(more,
		syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH,
	) {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// Stops reports whether s asks a process to end.
func Stops(s os.Signal) bool {
	return s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGINT || s == syscall.SIGQUIT
}

// A Relay passes signals on to a [Tree].
//
// In the process group of a terminal the command has been sent what was typed
// there: INT and QUIT are passed on from the second one of a kind, so that a
// Ctrl-C arrives once and kill -INT, twice, arrives as well; WINCH is not.
type Relay struct {
	Tree  *Tree
	Typed bool // the command shares our process group, and that has a terminal

	seen map[os.Signal]bool
}

// Pass passes s on.
func (r *Relay) Pass(s os.Signal) {
	number, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	if r.Typed {
		switch number {
		case syscall.SIGWINCH:
			return
		case syscall.SIGINT, syscall.SIGQUIT:
			if !r.seen[s] {
				if r.seen == nil {
					r.seen = map[os.Signal]bool{}
				}
				r.seen[s] = true
				return
			}
		}
	}
	r.Tree.Signal(number)
}
