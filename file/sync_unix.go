//go:build unix && !linux && !solaris && !illumos && !aix

package file

import "os"

func syncData(f *os.File) error { return f.Sync() }
