//go:build !windows && (!unix || solaris || illumos || aix)

package file

import (
	"os"

	"github.com/pawlock/pawl/driver"
)

func tryLock(*os.File, bool) (bool, error) { return false, driver.ErrUnsupported }
func unlock(*os.File)                      {}
func syncDir(string) error                 { return driver.ErrUnsupported }
func syncData(*os.File) error              { return driver.ErrUnsupported }
