//go:build !linux

package main

import "syscall"

func residentBytes(u *syscall.Rusage) int64 { return u.Maxrss }
