package file

import (
	"encoding/binary"
	"os"
	"slices"
	"sync"
	"syscall"
)

// A watcher tells of changes to files, by inotify. What it opens when someone
// first watches stays open until it is closed, because to close inotify takes
// the kernel some 10 ms.
type watcher struct {
	mu     sync.Mutex
	file   *os.File // guarded by mu, as are all below
	fd     int
	closed bool
	done   chan struct{} // closed when the goroutine that reads file has ended
	subs   map[int32][]chan struct{}
}

// watch returns a channel that has a value when the file at path may have
// changed since the call, and what ends that. Without inotify it is unwatched.
func (w *watcher) watch(path string) (changed <-chan struct{}, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.file == nil && !w.start() {
		return unwatched(path)
	}
	// A file that is removed shows as a change of its attributes, the links.
	id, err := syscall.InotifyAddWatch(w.fd, path, syscall.IN_MODIFY|syscall.IN_ATTRIB|syscall.IN_MOVE_SELF)
	if err != nil {
		return unwatched(path)
	}
	wd, c := int32(id), make(chan struct{}, 1)
	w.subs[wd] = append(w.subs[wd], c)
	return c, func() { w.stop(wd, c) }
}

// start opens inotify. The mutex is held.
func (w *watcher) start() bool {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return false // the user has no more of them
	}
	w.fd, w.file = fd, os.NewFile(uintptr(fd), "inotify")
	w.done, w.subs = make(chan struct{}), make(map[int32][]chan struct{})
	go w.read(w.file, w.done)
	return true
}

func (w *watcher) stop(wd int32, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subs[wd] = slices.DeleteFunc(w.subs[wd], func(other chan struct{}) bool { return other == c })
	if len(w.subs[wd]) == 0 {
		delete(w.subs, wd)
		if !w.closed { // else the descriptor may be another's by now
			_, _ = syscall.InotifyRmWatch(w.fd, uint32(wd)) // it is gone already if the file is
		}
	}
}

// close leaves those who still watch to their looks, and waits for the
// goroutine to end.
func (w *watcher) close() error {
	w.mu.Lock()
	w.closed = true
	f := w.file
	w.file = nil
	w.mu.Unlock()
	if f == nil {
		return nil
	}
	err := f.Close()
	<-w.done // nobody changes it any more
	return err
}

// read passes on the events of f until it is closed.
func (w *watcher) read(f *os.File, done chan struct{}) {
	defer close(done)
	buf := make([]byte, 64*(syscall.SizeofInotifyEvent+syscall.NAME_MAX+1))
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		w.mu.Lock()
		for b := buf[:n]; len(b) >= syscall.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			w.tell(wd)
			b = b[syscall.SizeofInotifyEvent+binary.NativeEndian.Uint32(b[12:]):]
		}
		w.mu.Unlock()
	}
}

// tell wakes those who watch wd, or all if events were lost. The mutex is held.
func (w *watcher) tell(wd int32) {
	for id, subs := range w.subs {
		if id != wd && wd >= 0 {
			continue
		}
		for _, c := range subs {
			select {
			case c <- struct{}{}:
			default: // it has yet to see the last one
			}
		}
	}
}
