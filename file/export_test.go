package file

import (
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/pawlock/pawl/driver"
)

// NewAt is New on a machine whose boot and clocks are given.
func NewAt(dir, boot string, since func() time.Duration, wall func() time.Time) (driver.Backend, error) {
	return open(dir, clock{boot: boot, wall: wall, since: func() (time.Duration, error) { return since(), nil }})
}

// Remove removes the record of key as a sweep does, its idle time aside.
func Remove(b driver.Backend, key string) bool {
	f := b.(*backend)
	return f.remove(filepath.Join(f.dir, recordName(key)), math.MaxUint64)
}

// OnFlush makes b call f to bring a file's data to disk.
func OnFlush(b driver.Backend, f func(*os.File) error) { b.(*backend).flush = f }

// Unwatch makes those who wait on b do without news of changes.
func Unwatch(b driver.Backend) { b.(*backend).watch = unwatched }

// What tests of the files themselves need.
var (
	RecordName = recordName
	KeyOf      = keyOf
)

// Names of files beside the records, and when they are looked through.
const (
	FloorName   = floorName
	NewPrefix   = newPrefix
	AlivePrefix = alivePrefix
	Idle        = idle
)

// UnknownBoot is the boot of a system that has no name for it.
const UnknownBoot = unknownBoot
