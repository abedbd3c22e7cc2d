package cri

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/capstan-dev/capstan/kube/cgroup"
	"github.com/capstan-dev/capstan/kube/cri/images"
)

// Defaults of the command's flags.
const (
	DefaultListen  = "unix:///run/containerd/containerd.sock"
	HollowListen   = "unix:///run/capstan/hollow.sock"
	RealListen     = "unix:///run/capstan/real.sock"
	DefaultState   = "/var/lib/capstan/cri"
	DefaultBundles = "/opt/capstan/bundles"
)

// defaultEnv is the environment of components without --env: it trades some processor time for less memory.
var defaultEnv = map[string][]string{
	"etcd":                    {"GOGC=50"},
	"kube-apiserver":          {"GOGC=50"},
	"kube-controller-manager": {"GOGC=50"},
	"kube-scheduler":          {"GOGC=50"},
}

// Main runs the CRI server until SIGTERM or SIGINT, and returns its exit code. If NOTIFY_SOCKET is set, Main notifies
// the service manager when the server is ready. own describes this binary.
func Main(own Contents, args []string, stderr io.Writer) int {
	if err := runServer(args, own, stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		fmt.Fprintln(stderr, "cri:", err)
		return 1
	}
	return 0
}

func runServer(args []string, contents Contents, stderr io.Writer) error {
	env := maps.Clone(defaultEnv)
	flags := flag.NewFlagSet("cri", flag.ContinueOnError)
	flags.SetOutput(stderr)
	at := addFlags(flags)
	state := flags.String("state", DefaultState, "`directory` of all state")
	bundles := flags.String("bundles", DefaultBundles,
		"`directory` with a directory for each bundle, named after its Kubernetes version")
	socket := flags.String("images", images.DefaultSocket,
		"`socket` of the image store, which hollow containers don't need")
	layers := flags.String("layers", images.DefaultLayers, "`directory` with the unpacked layers of the image store")
	groups := flags.String("groups", cgroup.DefaultDir,
		"`directory` with the control groups that limit containers, if there are any")
	runner := flags.String("runner", "", "`path` of capstan-run; by default, it is in the directory of this binary")
	flags.Func("env",
		"environment of a component as `COMPONENT=NAME=VALUE[,NAME=VALUE...]`, in place of its defaults; may be repeated",
		func(s string) error {
			name, vars, err := parseEnv(s)
			env[name] = vars
			return err
		})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: cri takes only flags", flags.Arg(0))
	}
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this binary: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	opts := Options{
		State:   *state,
		Bundles: Bundles{Dir: *bundles, Own: own, Contents: contents},
		Env:     env,
		Log:     slog.New(slog.NewTextHandler(stderr, nil)),
	}
	opts.Images = images.New(*socket, *layers)
	opts.Runner, opts.Unable = findRunner(*runner, own)
	if opts.Groups, err = openGroups(*groups); err != nil {
		opts.Log.Warn("limits of containers are not enforced", "error", err)
	}
	server, err := New(opts)
	if err != nil {
		return err
	}
	endpoints, err := at.open(server)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	// Initializing all packages of the binary left several MiB of garbage, which an idle server would not collect for
	// minutes.
	debug.FreeOSMemory()
	// The socket accepts connections from here on, so a service manager may start the kubelet.
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		slog.Warn("telling the service manager that the server is ready", "error", err)
	}
	return errors.Join(server.Serve(ctx, endpoints...), server.Close())
}

// findRunner returns the path of capstan-run: the requested path (asked) if there is one, or else the path next to the
// binary at own.
func findRunner(asked, own string) (string, error) {
	path := asked
	if path == "" {
		path = filepath.Join(filepath.Dir(own), "capstan-run")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("finding capstan-run, which runs containers (give its path with --runner, "+
			"or use --hollow): %w", err)
	}
	return path, nil
}

// parseEnv parses COMPONENT=NAME=VALUE,NAME=VALUE. If the text after the first "=" is empty, the component gets no
// environment.
func parseEnv(s string) (component string, vars []string, err error) {
	component, list, ok := strings.Cut(s, "=")
	if _, known := defaultEnv[component]; !ok || !known {
		return component, nil, fmt.Errorf("write COMPONENT=NAME=VALUE; COMPONENT must be one of %s",
			strings.Join(slices.Sorted(maps.Keys(defaultEnv)), ", "))
	}
	for entry := range strings.SplitSeq(list, ",") {
		if entry == "" {
			continue
		}
		if !strings.Contains(entry, "=") {
			return component, nil, fmt.Errorf("%q is not NAME=VALUE", entry)
		}
		vars = append(vars, entry)
	}
	return component, vars, nil
}
