// Command capstan-run runs one container; the CRI server of a local host starts one for each. See package run.
package main

import (
	"os"
	"runtime"

	"github.com/capstan-dev/capstan/kube/run"
)

// The main thread becomes the program.
func init() { runtime.LockOSThread() }

func main() { os.Exit(run.Main(os.Args)) }
