package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/runtime/certificate"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// actorDir is the variable that makes this test binary play extensions whose answers a test directs, instead of running
// tests. Its value is a directory with one directory for each of these extensions.
const actorDir = "CAPSTAN_E2E_ACTOR"

// answersFile, in the directory of an extension, holds a line for each answer of a handler.
const answersFile = "answers.jsonl"

// namesFile, in the directory of an extension, holds a suffix for the names of its handlers.
const namesFile = "names"

// manner is how a handler answers.
type manner string

const (
	passes manner = ""       // Success
	blocks manner = "blocks" // requests another call
	fails  manner = "fails"  // Failure
	hangs  manner = "hangs"  // no answer until the file changes or the caller gives up
	breaks manner = "breaks" // an HTTP error instead of a hook's answer
)

// line is one instruction for an actor.
type line struct {
	Manner  manner
	Message string
	After   time.Duration // if Manner is blocks: the time after which to call again
}

// lifecycle maps the hooks in the life of a cluster to functions that create a handler.
var lifecycle = map[string]func(extension string) server.Handler{
	"BeforeClusterCreate":          play(hook.BeforeClusterCreate),
	"AfterControlPlaneInitialized": play(hook.AfterControlPlaneInitialized),
	"BeforeClusterUpgrade":         play(hook.BeforeClusterUpgrade),
	"BeforeControlPlaneUpgrade":    play(hook.BeforeControlPlaneUpgrade),
	"AfterControlPlaneUpgrade":     play(hook.AfterControlPlaneUpgrade),
	"BeforeWorkersUpgrade":         play(hook.BeforeWorkersUpgrade),
	"AfterWorkersUpgrade":          play(hook.AfterWorkersUpgrade),
	"AfterClusterUpgrade":          play(hook.AfterClusterUpgrade),
	"BeforeClusterDelete":          play(hook.BeforeClusterDelete),
}

// play returns a function that creates handlers. A handler answers as a file says at the time of the call.
func play[Req, Resp any](of hook.Hook[Req, Resp]) func(extension string) server.Handler {
	return func(extension string) server.Handler {
		name := of.Descriptor().ID.Name
		suffix, err := os.ReadFile(filepath.Join(extension, namesFile))
		options := []server.Option{server.Timeout(5 * time.Second), server.Broken(err)}
		if strings.HasPrefix(filepath.Base(extension), ignored) {
			options = append(options, server.IgnoreFailures())
		}
		return server.Handle(of, strings.ToLower(name)+string(suffix), func(ctx context.Context, _ *Req, _ *Resp) error {
			return say(ctx, filepath.Join(extension, name))
		}, options...)
	}
}

// say answers as the file says, and passes if there is no file.
func say(ctx context.Context, file string) error {
	for {
		var l line
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &l)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		switch l.Manner {
		case blocks:
			return server.Wait(l.After, l.Message)
		case fails:
			return errors.New(l.Message)
		case breaks:
			panic("told to break")
		case hangs:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		default:
			return nil
		}
	}
}

// serveActor serves the extensions in a directory, each below its name, until standard input is closed. The address
// stays the same across restarts.
func serveActor(dir string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	keeper, err := certificate.New(ctx, certificate.InDirectory(filepath.Join(dir, certificateDir)),
		certificate.Options{Hosts: []string{"127.0.0.1"}, Name: "actor"})
	if err != nil {
		return err
	}
	if err := write(filepath.Join(dir, authorityFile), keeper.Authorities()); err != nil {
		return err
	}
	all := http.NewServeMux()
	extensions, err := filepath.Glob(filepath.Join(dir, "*", namesFile))
	if err != nil {
		return err
	}
	for _, file := range extensions {
		extension := filepath.Dir(file)
		prefix := "/" + filepath.Base(extension)
		var handlers []server.Handler
		for _, name := range slices.Sorted(maps.Keys(lifecycle)) {
			handlers = append(handlers, lifecycle[name](extension))
		}
		one, err := server.New(server.Options{Prefix: prefix}, handlers...)
		if err != nil {
			return err
		}
		var files [2]*os.File
		for i, name := range []string{callsFile, answersFile} {
			const appends = os.O_CREATE | os.O_APPEND | os.O_WRONLY
			if files[i], err = os.OpenFile(filepath.Join(extension, name), appends, 0o600); err != nil {
				return err
			}
			defer files[i].Close()
		}
		all.Handle(prefix+"/", noted{one, files[0], files[1]})
	}
	address := "127.0.0.1:0"
	if before, err := os.ReadFile(filepath.Join(dir, urlFile)); err == nil {
		address = strings.TrimPrefix(string(before), "https://")
	}
	return server.Serve(ctx, server.TLS{
		Address: address, GetCertificate: keeper.GetCertificate,
		Ready: func(address net.Addr) {
			for name, text := range map[string]string{
				urlFile: "https://" + address.String(), readyFile: fmt.Sprint(os.Getpid()),
			} {
				if err := write(filepath.Join(dir, name), []byte(text)); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}
		},
	}, all)
}

// write writes a file that others may read at any time.
func write(file string, data []byte) error {
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
