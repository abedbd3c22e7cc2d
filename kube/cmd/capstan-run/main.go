// Command capstan-run runs one container. The CRI server of a local host starts one capstan-run for each container. See
// package run.
package main

import (
	"os"
	"runtime"

	"github.com/capstan-dev/capstan/kube/run"
)

// The main thread later executes the container's program.
func init() { runtime.LockOSThread() }

func main() { os.Exit(run.Main(os.Args)) }
