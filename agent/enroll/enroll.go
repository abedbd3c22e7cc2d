// Package enroll makes a computer a host of a plane: "capstan-agent enroll".
//
// It creates the host's own key, presents it to the plane together with a credential, writes the agent's configuration
// from the answer, and starts the agent as a service. Each step can be repeated.
package enroll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// Options configure Run.
type Options struct {
	// Ticket holds the server, the hash of its certificate authority, the credential, and optionally the host's name.
	// Required.
	Ticket enrolment.Ticket
	// ConfigPath is the path of the agent's configuration; default config.DefaultPath. Run keeps directories that an
	// existing configuration sets.
	ConfigPath string
	// StateDir is the state directory in a new configuration; default config.DefaultStateDir.
	StateDir string
	// Bundles says where the programs of a node come from; see config.Config. If it is empty, Run keeps the present
	// setting.
	Bundles string
	// Wait is how long to retry while the plane can't be reached or tells the host to wait. If it is zero, Run tries
	// once.
	Wait time.Duration
	// Service starts the agent; nil leaves that to somebody else.
	Service Service
	// Root replaces / in tests.
	Root string
	// Version is the agent's version.
	Version string
	// Out receives messages about the progress. Required.
	Out io.Writer
}

// Service starts the agent at boot.
type Service interface {
	// Check returns an error if the service can't be installed, before anything is changed.
	Check() error
	// Start installs the service for a configuration and starts it, or restarts it if it is running.
	Start(ctx context.Context, configPath string) error
	// Advice returns how to inspect the service.
	Advice() string
}

// Run enrolls this computer.
func Run(ctx context.Context, o Options) error {
	if o.ConfigPath == "" {
		o.ConfigPath = config.DefaultPath
	}
	now, err := present(o)
	if err != nil {
		return err
	}
	if o.Service != nil {
		if err := o.Service.Check(); err != nil {
			return err
		}
	}
	request, err := o.request()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(now.StateDir, 0o700); err != nil {
		return fmt.Errorf("creating the state directory: %w", err)
	}
	key, err := ownKey(now.StateDir)
	if err != nil {
		return err
	}
	shown, err := certificate(key)
	if err != nil {
		return err
	}
	server, err := newAsker(o.Ticket.Server, o.Ticket.CAHash, shown)
	if err != nil {
		return err
	}
	answer, err := o.ask(ctx, server, request)
	if err != nil {
		return err
	}
	now.Server, now.Token = strings.TrimRight(answer.Server, "/"), answer.Token
	now.Enrolment = strings.TrimRight(o.Ticket.Server, "/")
	now.CAData, now.Namespace, now.Host = string(answer.CAData), answer.Namespace, answer.Host
	now.Bundles = cmp.Or(o.Bundles, now.Bundles)
	if err := write(o.ConfigPath, now); err != nil {
		return err
	}
	return o.finish(ctx, answer)
}

// ask sends the request to the plane, for at most Wait.
func (o Options) ask(ctx context.Context, server *asker, r enrolment.Request) (*enrolment.Answer, error) {
	fmt.Fprintf(o.Out, "Enrolling at %s\n", o.Ticket.Server)
	if o.Wait <= 0 {
		return server.ask(ctx, enrolment.EnrollPath, r)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	return server.askUntil(ctx, r, func(err error) { fmt.Fprintf(o.Out, "  not yet: %v\n", err) })
}

// finish starts the agent and prints what to do next.
func (o Options) finish(ctx context.Context, answer *enrolment.Answer) error {
	if o.Service != nil {
		if err := o.Service.Start(ctx, o.ConfigPath); err != nil {
			return fmt.Errorf("the host is enrolled, but its agent was not started: %w", err)
		}
	}
	was := ""
	if answer.Again {
		was = " again"
	}
	fmt.Fprintf(o.Out, "This computer is host %s of namespace %s%s.\n\nNext:\n", answer.Host, answer.Namespace, was)
	if o.Service != nil {
		fmt.Fprintf(o.Out, "  %s   # shows what the agent does\n", o.Service.Advice())
	} else {
		fmt.Fprintf(o.Out, "  capstan-agent --config %s   # run this as root, and at each start of the computer\n",
			o.ConfigPath)
	}
	fmt.Fprintln(o.Out, "  capstan host list   # on the plane's computer: the host is Available in some seconds")
	return nil
}

// present returns the existing configuration, whose directories Run keeps, or else a new one.
func present(o Options) (config.Config, error) {
	c := config.Config{BundlesDir: config.DefaultBundlesDir, StateDir: config.DefaultStateDir}
	if o.StateDir != "" {
		c.StateDir = o.StateDir
	}
	before, err := config.Read(o.ConfigPath)
	switch {
	case err == nil:
		if o.StateDir != "" && o.StateDir != before.StateDir {
			return c, fmt.Errorf(
				"the agent keeps its state in %s, as %s says: leave --state-dir out",
				before.StateDir,
				o.ConfigPath,
			)
		}
		return before, nil
	case errors.Is(err, os.ErrNotExist):
	default:
		return c, fmt.Errorf("%w; or remove that file, and enroll again", err)
	}
	if !filepath.IsAbs(c.StateDir) {
		return c, errors.New("--state-dir must be an absolute path")
	}
	return c, nil
}

// request returns the request to send.
func (o Options) request() (enrolment.Request, error) {
	if _, _, err := enrolment.ParseCredential(o.Ticket.Credential); err != nil {
		return enrolment.Request{}, err
	}
	machine, err := machineID(o.Root)
	if err != nil {
		return enrolment.Request{}, err
	}
	computer, err := os.Hostname()
	if err != nil {
		return enrolment.Request{}, fmt.Errorf("reading the host name: %w", err)
	}
	return enrolment.Request{Credential: o.Ticket.Credential, Host: o.Ticket.Host, Hostname: hostName(computer),
		Machine: machine, Version: o.Version}, nil
}

// notInNames matches characters that a host's name can't have.
var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// hostName derives the name of a host from the first part of a computer's name. Pure.
func hostName(computer string) string {
	first, _, _ := strings.Cut(strings.ToLower(computer), ".")
	name := strings.Trim(notInNames.ReplaceAllString(first, "-"), "-")
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// write writes the configuration, which holds a token, so that only root can read it.
func write(path string, c config.Config) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("the plane's answer is invalid: %w", err)
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("writing the agent's configuration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing the agent's configuration: %w", err)
	}
	if err := atomicfile.Write(path, data, 0o600); err != nil {
		return fmt.Errorf("writing the agent's configuration: %w", err)
	}
	return nil
}
