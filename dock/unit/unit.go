// Package unit reads the subset of systemd's unit files that local hosts support: services with their drop-ins, enabled
// by links in multi-user.target.wants.
//
// A directive outside the subset is not an error: Unit.Ignored lists it.
package unit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Unit is one service with its drop-ins applied.
type Unit struct {
	Name        string // with suffix: "kubelet.service"
	Path        string // the unit file
	DropIns     []string
	Description string

	Type            string // "simple" (also for notify, exec and idle) or "oneshot"
	RemainAfterExit bool
	ExecStartPre    []Command
	ExecStart       []Command // one, or any number with Type oneshot
	ExecStop        []Command

	Environment      []string // NAME=VALUE
	EnvironmentFiles []EnvironmentFile
	WorkingDirectory string // "" is /

	Restart      string        // no, always, on-failure, on-success, on-abnormal, on-abort, on-watchdog
	RestartPause time.Duration // RestartSec; default 100ms
	TimeoutStart time.Duration // for each ExecStartPre and a oneshot's commands; default 90s, 0 is no limit
	TimeoutStop  time.Duration // from SIGTERM to SIGKILL; default 10s (systemd's is 90s: too long for `down`)
	KillMode     string        // control-group (default), mixed, process, none

	After    []string // units to start before this one if both are to start
	WantedBy []string

	Ignored []string // directives that have no effect here, as Section.Name
}

// Command is one Exec line.
type Command struct {
	Argv          []string // before expansion of variables
	IgnoreFailure bool     // prefix "-"
	NoExpand      bool     // prefix ":"
}

// EnvironmentFile is a file of NAME=VALUE lines, read at each start.
type EnvironmentFile struct {
	Path     string
	Optional bool // prefix "-": may be missing
}

// ErrNotFound is wrapped by Load's error if the unit does not exist.
var ErrNotFound = errors.New("unit could not be found")

// ErrMasked is wrapped by Load's error if the unit is a link to /dev/null.
var ErrMasked = errors.New("unit is masked")

// FullName adds ".service" to a name without a known suffix.
func FullName(name string) string {
	for _, suffix := range []string{".service", ".target", ".socket", ".timer", ".mount", ".path", ".slice", ".scope",
		".device", ".swap"} {
		if strings.HasSuffix(name, suffix) {
			return name
		}
	}
	return name + ".service"
}

// ShortName returns the name without ".service", as in names of logs.
func ShortName(name string) string { return strings.TrimSuffix(name, ".service") }

// ValidName returns an error if name can't be the name of a unit, which becomes part of paths.
func ValidName(name string) error {
	if name == "" || len(name) > 200 || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") {
		return fmt.Errorf("%q is not a unit name", name)
	}
	for _, r := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@", r) {
			return fmt.Errorf("%q is not a unit name: it contains %q", name, r)
		}
	}
	return nil
}

type option struct{ section, name, value string }

func parse(name string, options []option) (*Unit, error) {
	u := &Unit{
		Name:         name,
		Type:         "simple",
		Restart:      "no",
		RestartPause: 100 * time.Millisecond,
		TimeoutStart: 90 * time.Second,
		TimeoutStop:  10 * time.Second,
		KillMode:     "control-group",
	}
	for _, o := range options {
		if err := u.set(o); err != nil {
			return nil, fmt.Errorf("reading %s: [%s] %s=%s: %w", name, o.section, o.name, o.value, err)
		}
	}
	return u, u.validate()
}

func (u *Unit) validate() error {
	if !strings.HasSuffix(u.Name, ".service") {
		return nil
	}
	switch n := len(u.ExecStart); {
	case n == 0 && u.Type != "oneshot":
		return fmt.Errorf("reading %s: it has no ExecStart", u.Name)
	case n > 1 && u.Type != "oneshot":
		return fmt.Errorf("reading %s: more than one ExecStart needs Type=oneshot", u.Name)
	}
	return nil
}

func (u *Unit) set(o option) (err error) {
	switch o.section + "." + o.name {
	case "Unit.Description":
		u.Description = o.value
	case "Unit.After":
		u.After = words(u.After, o.value)
	case "Install.WantedBy", "Install.RequiredBy":
		u.WantedBy = words(u.WantedBy, o.value)
	case "Service.Type":
		switch o.value {
		case "simple", "notify", "notify-reload", "exec", "idle":
			u.Type = "simple"
		case "oneshot":
			u.Type = "oneshot"
		default:
			return fmt.Errorf("local hosts support only the types simple, notify, exec, idle and oneshot")
		}
	case "Service.RemainAfterExit":
		u.RemainAfterExit, err = boolean(o.value)
	case "Service.ExecStartPre":
		u.ExecStartPre, err = commands(u.ExecStartPre, o.value)
	case "Service.ExecStart":
		u.ExecStart, err = commands(u.ExecStart, o.value)
	case "Service.ExecStop":
		u.ExecStop, err = commands(u.ExecStop, o.value)
	case "Service.Environment":
		if o.value == "" {
			u.Environment = nil
			return nil
		}
		var pairs []string
		if pairs, err = split(o.value); err == nil {
			u.Environment = append(u.Environment, pairs...)
		}
	case "Service.EnvironmentFile":
		if o.value == "" {
			u.EnvironmentFiles = nil
			return nil
		}
		path, optional := strings.CutPrefix(o.value, "-")
		u.EnvironmentFiles = append(u.EnvironmentFiles, EnvironmentFile{Path: path, Optional: optional})
	case "Service.WorkingDirectory":
		u.WorkingDirectory = strings.TrimPrefix(o.value, "-")
	case "Service.Restart":
		switch o.value {
		case "no", "always", "on-success", "on-failure", "on-abnormal", "on-abort", "on-watchdog":
			u.Restart = o.value
		default:
			return errors.New("unknown value")
		}
	case "Service.RestartSec":
		u.RestartPause, err = Span(o.value)
	case "Service.TimeoutStartSec":
		u.TimeoutStart, err = Span(o.value)
	case "Service.TimeoutStopSec":
		u.TimeoutStop, err = Span(o.value)
	case "Service.TimeoutSec":
		u.TimeoutStart, err = Span(o.value)
		u.TimeoutStop = u.TimeoutStart
	case "Service.KillMode":
		switch o.value {
		case "control-group", "mixed", "process", "none":
			u.KillMode = o.value
		default:
			return errors.New("unknown value")
		}
	case "Unit.Documentation", "Unit.Wants", "Unit.Requires", "Unit.Before", "Service.StandardOutput",
		"Service.StandardError":
		// These matter little here: they are not worth a line in the log.
	default:
		u.Ignored = append(u.Ignored, o.section+"."+o.name)
	}
	return err
}

func words(have []string, value string) []string {
	if value == "" {
		return nil
	}
	return append(have, strings.Fields(value)...)
}

func commands(have []Command, value string) ([]Command, error) {
	if value == "" {
		return nil, nil
	}
	var c Command
	for value != "" && strings.ContainsRune("-:+!@", rune(value[0])) {
		switch value[0] {
		case '-':
			c.IgnoreFailure = true
		case ':':
			c.NoExpand = true
		case '@':
			return nil, errors.New(`the prefix "@" is not supported on local hosts`)
		}
		value = value[1:]
	}
	var err error
	if c.Argv, err = split(value); err != nil {
		return nil, err
	}
	if len(c.Argv) == 0 {
		return nil, errors.New("no command")
	}
	return append(have, c), nil
}

func boolean(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "yes", "true", "on", "1", "y", "t":
		return true, nil
	case "no", "false", "off", "0", "n", "f":
		return false, nil
	}
	return false, errors.New("not a boolean")
}

// Span parses systemd's time spans: "5", "500ms", "1min 30s", "infinity" (which is 0 here).
func Span(value string) (time.Duration, error) {
	value = strings.ReplaceAll(value, " ", "")
	if value == "infinity" {
		return 0, nil
	}
	units := map[string]time.Duration{
		"": time.Second, "us": time.Microsecond, "usec": time.Microsecond, "ms": time.Millisecond, "msec": time.Millisecond,
		"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
		"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
		"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
		"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	}
	if value == "" {
		return 0, errors.New("empty time span")
	}
	var sum time.Duration
	for value != "" {
		i := strings.IndexFunc(value, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if i < 0 {
			i = len(value)
		}
		number, err := strconv.ParseFloat(value[:i], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time span", value)
		}
		value = value[i:]
		j := strings.IndexFunc(value, func(r rune) bool { return r >= '0' && r <= '9' })
		if j < 0 {
			j = len(value)
		}
		unit, known := units[value[:j]]
		if !known {
			return 0, fmt.Errorf("%q is not a unit of time", value[:j])
		}
		value = value[j:]
		if sum += time.Duration(number * float64(unit)); sum < 0 {
			return 0, errors.New("the time span is too long")
		}
	}
	return sum, nil
}
