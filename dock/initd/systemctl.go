//go:build linux

package initd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/dock/unit"
)

// Exit statuses of systemctl, which kubeadm and scripts check.
const (
	exitFailed   = 1
	exitInactive = 3
	exitUnknown  = 4
	exitNoUnit   = 5 // start, stop, ... of a unit that doesn't exist
)

// systemctl is one parsed call.
type systemctl struct {
	m       *Manager
	verb    string
	units   []string
	quiet   bool
	noBlock bool
	now     bool
	value   bool
	all     bool
	props   []string

	out, err strings.Builder
	code     int
}

// Systemctl executes "systemctl ARGS". It calls power for poweroff and reboot.
func (m *Manager) Systemctl(args []string, power func(reboot bool)) Reply {
	c := &systemctl{m: m}
	if err := c.parse(args); err != nil {
		return Reply{Err: err.Error() + "\n", Code: exitFailed}
	}
	c.run(power)
	return Reply{Out: c.out.String(), Err: c.err.String(), Code: c.code}
}

func (c *systemctl) parse(args []string) error {
	var words []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-q" || a == "--quiet":
			c.quiet = true
		case a == "--no-block":
			c.noBlock = true
		case a == "--now":
			c.now = true
		case a == "--value":
			c.value = true
		case a == "-a" || a == "--all":
			c.all = true
		case a == "-p" || a == "--property":
			if i++; i == len(args) {
				return fmt.Errorf("systemctl: option %s needs the name of a property", a)
			}
			c.props = append(c.props, strings.Split(args[i], ",")...)
		case strings.HasPrefix(a, "--property="):
			c.props = append(c.props, strings.Split(strings.TrimPrefix(a, "--property="), ",")...)
		case strings.HasPrefix(a, "-p") && !strings.HasPrefix(a, "--"):
			c.props = append(c.props, strings.Split(a[2:], ",")...)
		case a == "-l", a == "--full", a == "--no-pager", a == "--no-legend", a == "--plain", a == "--system", a == "-f",
			a == "--force", a == "--no-ask-password",
			strings.HasPrefix(a, "--lines="), strings.HasPrefix(a, "--type="), strings.HasPrefix(a, "--state="),
			strings.HasPrefix(a, "--job-mode="), a == "--no-reload":
			// These have no effect here.
		case a == "-n" || a == "-t" || a == "--type" || a == "--lines":
			i++
		case strings.HasPrefix(a, "-"):
			return fmt.Errorf("systemctl: unknown option %s (this is the systemctl of a local host; it knows a subset)", a)
		default:
			words = append(words, a)
		}
	}
	if len(words) == 0 {
		words = []string{"list-units"}
	}
	c.verb = words[0]
	for _, w := range words[1:] {
		c.units = append(c.units, unit.FullName(w))
	}
	return nil
}

// actions returns the commands that operate on units.
func (c *systemctl) actions() map[string]func(context.Context, string) {
	return map[string]func(context.Context, string){
		"start": c.start, "stop": c.stop, "restart": c.restart, "reload-or-restart": c.restart, "reload": c.restart,
		"try-restart": c.tryRestart, "try-reload-or-restart": c.tryRestart,
		"enable": c.enable, "reenable": c.enable, "disable": c.disable, "mask": c.mask, "unmask": c.unmask,
		"is-enabled": c.isEnabled, "is-active": c.isActive, "is-failed": c.isFailed, "reset-failed": c.resetFailed,
		"status": c.status, "show": c.show, "cat": c.cat,
	}
}

func (c *systemctl) run(power func(bool)) {
	switch c.verb {
	// every start reads the unit files anyway
	case "daemon-reload", "daemon-reexec", "preset", "preset-all", "set-default", "isolate":
		return
	case "is-system-running":
		c.print("running")
		return
	case "poweroff", "halt", "reboot":
		power(c.verb == "reboot")
		return
	case "list-units", "list-unit-files":
		c.list()
		return
	}
	do := c.actions()[c.verb]
	switch {
	case do == nil:
		c.fail(exitFailed, "systemctl: unknown command %s (this is the systemctl of a local host; it knows a subset)", c.verb)
		return
	case len(c.units) == 0 && (c.verb == "reset-failed" || c.verb == "status" || c.verb == "show"):
		return
	case len(c.units) == 0:
		c.fail(exitFailed, "Too few arguments.")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	for _, name := range c.units {
		if c.noBlock && slices.Contains([]string{"start", "stop", "restart", "reload-or-restart", "try-restart"}, c.verb) {
			c.later(name)
		} else {
			do(ctx, name)
		}
	}
}

// later implements --no-block: it starts the job without waiting for the job to finish. It reports only units that
// don't exist.
func (c *systemctl) later(name string) {
	if _, err := c.m.service(name); err != nil {
		c.noUnit(name, err)
		return
	}
	job := &systemctl{m: c.m, verb: c.verb}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), callLimit)
		defer cancel()
		job.actions()[job.verb](ctx, name)
	}()
}

func (c *systemctl) print(format string, args ...any) {
	if !c.quiet {
		fmt.Fprintf(&c.out, format+"\n", args...)
	}
}

func (c *systemctl) fail(code int, format string, args ...any) {
	c.code = code
	fmt.Fprintf(&c.err, format+"\n", args...)
}

// noUnit reports, in systemd's words, why the command can't operate on a unit.
func (c *systemctl) noUnit(name string, err error) {
	switch {
	case errors.Is(err, unit.ErrNotFound):
		c.fail(exitNoUnit, "Failed to %s %s: Unit %s not found.", c.verb, name, name)
	case errors.Is(err, unit.ErrMasked):
		c.fail(exitFailed, "Failed to %s %s: Unit %s is masked.", c.verb, name, name)
	default:
		c.fail(exitFailed, "Failed to %s %s: %v", c.verb, name, err)
	}
}

// job reports a failed start, stop or restart.
func (c *systemctl) job(name string, err error) {
	switch {
	case err == nil:
	case errors.Is(err, unit.ErrNotFound), errors.Is(err, unit.ErrMasked):
		c.noUnit(name, err)
	default:
		c.fail(exitFailed, "Job for %s failed: %v\nSee \"systemctl status %s\" and \"journalctl -u %s\" for details.", name,
			err, name, name)
	}
}

func (c *systemctl) start(ctx context.Context, name string) { c.job(name, c.m.Start(ctx, name)) }

func (c *systemctl) stop(ctx context.Context, name string) { c.job(name, c.m.Stop(ctx, name)) }

func (c *systemctl) restart(ctx context.Context, name string) { c.job(name, c.m.Restart(ctx, name)) }

func (c *systemctl) tryRestart(ctx context.Context, name string) {
	if s, err := c.m.Status(name); err == nil && s.State != Inactive && s.State != Failed {
		c.restart(ctx, name)
	}
}

func (c *systemctl) enable(ctx context.Context, name string) {
	u, err := unit.Load(name, c.m.dirs)
	if err != nil {
		if errors.Is(err, unit.ErrNotFound) {
			c.fail(exitFailed, "Failed to enable unit: Unit file %s does not exist.", name)
			return
		}
		c.noUnit(name, err)
		return
	}
	made, err := unit.Enable(u, c.m.dirs[0])
	for _, link := range made {
		if !c.quiet {
			fmt.Fprintf(&c.err, "Created symlink %s \u2192 %s.\n", link, u.Path)
		}
	}
	if err != nil {
		c.fail(exitFailed, "%v", err)
		return
	}
	if c.now {
		c.start(ctx, name)
	}
}

func (c *systemctl) disable(ctx context.Context, name string) {
	removed, err := unit.Disable(name, c.m.dirs[0])
	for _, link := range removed {
		if !c.quiet {
			fmt.Fprintf(&c.err, "Removed %s.\n", link)
		}
	}
	if err != nil {
		c.fail(exitFailed, "%v", err)
		return
	}
	if _, err := unit.Load(name, c.m.dirs); errors.Is(err, unit.ErrNotFound) && len(removed) == 0 {
		c.fail(exitFailed, "Failed to disable unit: Unit file %s does not exist.", name)
		return
	}
	if c.now {
		c.stop(ctx, name)
	}
}

func (c *systemctl) mask(ctx context.Context, name string) {
	if err := unit.ValidName(name); err != nil {
		c.fail(exitFailed, "%v", err)
		return
	}
	// As with systemd, only a unit that has no file in the first directory can be masked.
	if err := os.Symlink(os.DevNull, filepath.Join(c.m.dirs[0], name)); err != nil && !errors.Is(err, os.ErrExist) {
		c.fail(exitFailed, "Failed to mask unit: %v", err)
	} else if err != nil {
		c.fail(exitFailed, "Failed to mask unit: File %s already exists.", filepath.Join(c.m.dirs[0], name))
	}
}

func (c *systemctl) unmask(ctx context.Context, name string) {
	if err := unit.ValidName(name); err != nil {
		c.fail(exitFailed, "%v", err)
		return
	}
	path := filepath.Join(c.m.dirs[0], name)
	if target, err := os.Readlink(path); err == nil && target == os.DevNull {
		os.Remove(path)
	}
}

func (c *systemctl) resetFailed(ctx context.Context, name string) {
	if s, err := c.m.Status(name); err == nil && s.State == Failed {
		c.m.Stop(ctx, name)
	}
}

// unitFileState returns what is-enabled prints.
func (c *systemctl) unitFileState(name string) string {
	u, err := unit.Load(name, c.m.dirs)
	switch {
	case errors.Is(err, unit.ErrNotFound):
		return "not-found"
	case errors.Is(err, unit.ErrMasked):
		return "masked"
	case err != nil:
		return "bad"
	case unit.Enabled(name, c.m.dirs[0]):
		return "enabled"
	case len(u.WantedBy) == 0:
		return "static"
	}
	return "disabled"
}

func (c *systemctl) isEnabled(_ context.Context, name string) {
	switch state := c.unitFileState(name); state {
	case "enabled", "static":
		c.print("%s", state)
	case "not-found":
		c.print("%s", state)
		c.code = exitUnknown
	default:
		c.print("%s", state)
		c.code = exitFailed
	}
}

func (c *systemctl) isActive(_ context.Context, name string) {
	s, err := c.m.Status(name)
	if err != nil {
		c.print("inactive")
		if c.code = exitInactive; errors.Is(err, unit.ErrNotFound) {
			c.code = exitUnknown
		}
		return
	}
	c.print("%s", s.State)
	if s.State != Active {
		c.code = exitInactive
	}
}

func (c *systemctl) isFailed(_ context.Context, name string) {
	s, err := c.m.Status(name)
	if err != nil {
		s.State = Inactive
	}
	c.print("%s", s.State)
	if s.State != Failed {
		c.code = exitFailed
	}
}

func (c *systemctl) cat(_ context.Context, name string) {
	u, err := unit.Load(name, c.m.dirs)
	if err != nil {
		c.fail(exitFailed, "No files found for %s.", name)
		return
	}
	for _, path := range append([]string{u.Path}, u.DropIns...) {
		data, err := os.ReadFile(path)
		if err != nil {
			c.fail(exitFailed, "reading %s: %v", path, err)
			return
		}
		c.print("# %s\n%s", path, data)
	}
}
