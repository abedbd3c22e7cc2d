// Package enroll makes a computer a host of a plane: "capstan-agent enroll".
//
// It makes the host's own key, shows it to the plane together with a credential, writes the agent's configuration from
// the answer, and starts the agent as a service. Each step can be repeated.
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

// Options say how to enroll.
type Options struct {
	// Ticket has the server, the hash of its authority, the credential, and perhaps the name. Required.
	Ticket enrolment.Ticket
	// ConfigPath is the agent's configuration; default config.DefaultPath. What it says of directories stays.
	ConfigPath string
	// StateDir is that of a new configuration; default config.DefaultStateDir.
	StateDir string
	// Bundles says where the programs of a node come from, as config.Config has it. Empty: what it says now.
	Bundles string
	// Wait is how long it is tried while the plane can't be reached or asks for patience. Zero: once.
	Wait time.Duration
	// Service starts the agent; nil leaves that to somebody else.
	Service Service
	// Root is the directory that counts as /, for tests.
	Root string
	// Version is the agent's.
	Version string
	// Out hears what happens. Required.
	Out io.Writer
}

// Service starts the agent with the computer.
type Service interface {
	// Check fails if it can't be done, before anything is changed.
	Check() error
	// Start installs the service for a configuration and starts it, anew if it runs.
	Start(ctx context.Context, configPath string) error
	// Advice says how to look at it.
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
		return fmt.Errorf("making the state directory: %w", err)
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

// ask asks the plane, for as long as it may take.
func (o Options) ask(ctx context.Context, server *asker, r enrolment.Request) (*enrolment.Answer, error) {
	fmt.Fprintf(o.Out, "Enrolling at %s\n", o.Ticket.Server)
	if o.Wait <= 0 {
		return server.ask(ctx, enrolment.EnrollPath, r)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	return server.askUntil(ctx, r, func(err error) { fmt.Fprintf(o.Out, "  not yet: %v\n", err) })
}

// finish starts the agent and says what comes next.
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
		fmt.Fprintf(o.Out, "  %s   # what the agent does\n", o.Service.Advice())
	} else {
		fmt.Fprintf(o.Out, "  capstan-agent --config %s   # run it as root, and with each start of the computer\n",
			o.ConfigPath)
	}
	fmt.Fprintln(o.Out, "  capstan host list   # where the plane is: the host is Available in some seconds")
	return nil
}

// present returns the configuration that is there, whose directories stay; else a new one.
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
		return c, fmt.Errorf("%w; or remove it, and enroll again", err)
	}
	if !filepath.IsAbs(c.StateDir) {
		return c, errors.New("--state-dir must be an absolute path")
	}
	return c, nil
}

// request returns what is sent.
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
		return enrolment.Request{}, fmt.Errorf("finding out the host name: %w", err)
	}
	return enrolment.Request{Credential: o.Ticket.Credential, Host: o.Ticket.Host, Hostname: hostName(computer),
		Machine: machine, Version: o.Version}, nil
}

// notInNames are runs of characters that the name of a host can't have.
var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// hostName returns the name of a host for the name of a computer: its first part. Pure.
func hostName(computer string) string {
	first, _, _ := strings.Cut(strings.ToLower(computer), ".")
	name := strings.Trim(notInNames.ReplaceAllString(first, "-"), "-")
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// write writes the configuration, which holds a token. Only root reads it.
func write(path string, c config.Config) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("the plane's answer can't be used: %w", err)
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
