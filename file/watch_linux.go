package file

import (
	"encoding/binary"
	"os"
	"slices"
	"sync"
	"syscall"
)

// A watcher tells of changes to files, by inotify. It has a descriptor and a
// goroutine only while someone watches: users have few of the former.
type watcher struct {
	mu   sync.Mutex
	file *os.File // guarded by mu, as are all below
	fd   int
	done chan struct{} // closed when the goroutine that reads file has ended
	subs map[int32][]chan struct{}
}

// watch returns a channel that has a value when the file at path may have
// changed since the call, and what ends that. It returns nil if inotify can't
// be had.
func (w *watcher) watch(path string) (changed <-chan struct{}, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil && !w.start() {
		return unwatched(path)
	}
	// A file that is removed shows as a change of its attributes, the links.
	id, err := syscall.InotifyAddWatch(w.fd, path, syscall.IN_MODIFY|syscall.IN_ATTRIB|syscall.IN_MOVE_SELF)
	if err != nil {
		w.endIfIdle()
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

// stop ends a watch, and waits for the goroutine to end if it was the last.
func (w *watcher) stop(wd int32, c chan struct{}) {
	w.mu.Lock()
	w.subs[wd] = slices.DeleteFunc(w.subs[wd], func(other chan struct{}) bool { return other == c })
	if len(w.subs[wd]) == 0 {
		delete(w.subs, wd)
		_, _ = syscall.InotifyRmWatch(w.fd, uint32(wd)) // it is gone already if the file is
	}
	done := w.endIfIdle()
	w.mu.Unlock()
	if done != nil {
		<-done
	}
}

// endIfIdle closes inotify once nobody watches, and returns what is closed when
// the goroutine has ended. The mutex is held.
func (w *watcher) endIfIdle() <-chan struct{} {
	if len(w.subs) > 0 {
		return nil
	}
	w.file.Close() // ends the goroutine
	w.file = nil
	return w.done
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
			if w.file == f {
				w.tell(wd)
			}
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
