//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/initd"
	"github.com/capstan-dev/capstan/dock/inside"
	"github.com/capstan-dev/capstan/dock/outside"
	"github.com/capstan-dev/capstan/dock/probe"
)

// Keep the main goroutine on the main thread: PID 1 of a dock dies when the thread that started it exits.
func init() { runtime.LockOSThread() }

const usage = `usage:
  capstan-dock run --home HOME --bin-dir DIR    run a dock in the foreground
  capstan-dock check [--home HOME] [--json]     report what keeps a dock from working on this machine
Inside a local host it also runs as systemctl, journalctl, hostnamectl, poweroff, reboot and shutdown.
`

// Commands that only this program itself calls.
const (
	insideCommand = "inside"       // PID 1 of a dock
	initCommand   = "init"         // PID 1 of a host
	probeCommand  = "check-inside" // the part of "check" that runs in new namespaces
	holdCommand   = inside.HoldCommand
)

func run(args []string, out, errOut io.Writer) int {
	name := filepath.Base(args[0])
	if code, known := initd.Applet(name, args[1:], out, errOut); known {
		return code
	}
	if len(args) < 2 {
		fmt.Fprint(errOut, usage)
		return 2
	}
	command, rest := args[1], args[2:]
	switch command {
	case "run":
		return runDock(rest, errOut)
	case "check":
		return runCheck(rest, out, errOut)
	case insideCommand:
		return runInside(rest, errOut)
	case initCommand:
		return initd.Run()
	case outside.AwaitCommand:
		fmt.Fprintln(errOut, outside.AwaitIDs(rest))
		return 1
	case inside.EnterCommand:
		fmt.Fprintln(errOut, inside.EnterGroups())
		return 1
	case holdCommand:
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case probeCommand:
		if err := probe.Inside(); err != nil {
			fmt.Fprintln(errOut, err)
			return 1
		}
		return 0
	}
	if code, known := initd.Applet(command, rest, out, errOut); known {
		return code
	}
	fmt.Fprint(errOut, usage)
	return 2
}

func flags(name string, errOut io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("capstan-dock "+name, flag.ContinueOnError)
	f.SetOutput(errOut)
	return f
}

func runDock(args []string, errOut io.Writer) int {
	f := flags("run", errOut)
	home := f.String("home", "", "absolute path of Capstan's home directory")
	binDir := f.String("bin-dir", "", "absolute path of the directory with Capstan's binaries")
	instance := f.String("instance", "", "name of this run, which the dock's status shows")
	if f.Parse(args) != nil {
		return 2
	}
	logger := log.New(errOut, "dock: ", log.LstdFlags|log.Lmsgprefix)
	if !filepath.IsAbs(*home) || !filepath.IsAbs(*binDir) {
		logger.Print("--home and --bin-dir must be absolute paths")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	var images []string
	if program := filepath.Join(*binDir, inside.ImagesProgram); exists(program) {
		images = []string{program, "serve", "--dir", filepath.Join(*home, "images")}
	}
	err := outside.Run(ctx, outside.Config{
		Images: images,
		Dir:    dock.Dir(*home),
		Inside: []string{insideCommand, *home, *binDir, strconv.FormatBool(outside.Rootless()), *instance},
		Log:    logger,
	})
	switch {
	case errors.Is(err, outside.ErrLocked):
		logger.Print(err)
		return outside.ExitLocked
	case err != nil:
		logger.Print(err)
		return outside.ExitFailed
	}
	return 0
}

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func runInside(args []string, errOut io.Writer) int {
	logger := log.New(errOut, "dock: ", log.LstdFlags|log.Lmsgprefix)
	if len(args) != 4 {
		logger.Print("only `capstan-dock run` starts this command")
		return 2
	}
	if err := inside.Run(inside.Config{
		Home: args[0], BinDir: args[1], Rootless: args[2] == "true", Instance: args[3], Log: logger,
	}); err != nil {
		logger.Print(err)
		return 1
	}
	return 0
}

func runCheck(args []string, out, errOut io.Writer) int {
	f := flags("check", errOut)
	home := f.String("home", "/", "home directory of Capstan; it need not exist")
	minFree := f.Uint64("min-free", 1<<30, "bytes that must be free on the disk of the home directory")
	inotify := f.Int("inotify", 48, "inotify instances that must be free for this user")
	asJSON := f.Bool("json", false, "print problems as JSON")
	if f.Parse(args) != nil {
		return 2
	}
	problems := probe.Check(context.Background(), probe.Config{
		Home: *home, MinFree: *minFree, Instances: *inotify, Inside: []string{probeCommand},
	})
	if *asJSON {
		if err := json.NewEncoder(out).Encode(problems); err != nil {
			fmt.Fprintln(errOut, err)
			return 1
		}
		return 0
	}
	for _, p := range problems {
		fmt.Fprintln(out, p)
	}
	if len(problems) > 0 {
		return 1
	}
	fmt.Fprintln(out, "a dock can run on this machine")
	return 0
}
