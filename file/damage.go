package file

import (
	"fmt"
	"path/filepath"

	"github.com/pawlock/pawl/driver"
)

// A DamageError says that a record can't be trusted. Nothing is granted on its
// key until the file is moved away. errors.Is(err, driver.ErrRefused) holds.
type DamageError struct {
	Path string // of the record file
	Why  string
}

// Error implements the error interface.
func (e *DamageError) Error() string {
	aside := filepath.Join(filepath.Dir(e.Path), "damaged-"+filepath.Base(e.Path))
	return fmt.Sprintf("the lock record %s is damaged (%s), so nobody can tell who holds the lock: "+
		"stop all programs that use it, or wait for the longest of their TTLs; then move the file away (mv '%s' '%s')",
		e.Path, e.Why, e.Path, aside)
}

// Unwrap makes errors.Is(err, driver.ErrRefused) hold.
func (e *DamageError) Unwrap() error { return driver.ErrRefused }
