//go:build linux

package initd

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/capstan-dev/capstan/dock/unit"
)

// statusLines is the number of log lines that "systemctl status" shows.
const statusLines = 10

func (c *systemctl) status(_ context.Context, name string) {
	u, err := unit.Load(name, c.m.dirs)
	if errors.Is(err, unit.ErrNotFound) {
		// Print to standard output: kubeadm looks for these words there.
		c.print("Unit %s could not be found.", name)
		c.code = exitUnknown
		return
	}
	if err != nil {
		c.print("%s\n     Loaded: bad (%v)", name, err)
		c.code = exitInactive
		return
	}
	s, err := c.m.Status(name)
	if err != nil {
		c.fail(exitInactive, "%v", err)
		return
	}
	c.print("\u25cf %s - %s", name, u.Description)
	c.print("     Loaded: loaded (%s; %s)", u.Path, c.unitFileState(name))
	for _, d := range u.DropIns {
		c.print("    Drop-In: %s", d)
	}
	result := ""
	if s.State == Failed {
		result = " (Result: " + s.Result + ")"
	}
	c.print("     Active: %s (%s)%s since %s; %s ago", s.State, s.Sub, result,
		s.Since.Format("Mon 2006-01-02 15:04:05 MST"), time.Since(s.Since).Round(time.Second))
	if s.PID != 0 {
		c.print("   Main PID: %d", s.PID)
	}
	if s.Exit != "" {
		c.print("  Last exit: %s; %d restarts", s.Exit, s.Restarts)
	}
	if lines, err := tail(c.m.LogPath(name), statusLines); err == nil && lines != "" {
		c.print("\n%s", lines)
	}
	if s.State != Active {
		c.code = exitInactive
	}
}

func (c *systemctl) show(_ context.Context, name string) {
	props := map[string]string{
		"Id": name, "Names": name, "LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead",
		"UnitFileState": "", "MainPID": "0", "ExecMainPID": "0",
		"ExecMainStatus": "0", "NRestarts": "0", "Result": "success", "FragmentPath": "", "Description": name,
		"DropInPaths": "", "Type": "",
		"NeedDaemonReload": "no", "StatusErrno": "0", "ActiveEnterTimestamp": "",
	}
	u, err := unit.Load(name, c.m.dirs)
	switch {
	case errors.Is(err, unit.ErrMasked):
		props["LoadState"] = "masked"
	case err == nil:
		props["LoadState"], props["FragmentPath"], props["Description"] = "loaded", u.Path, u.Description
		props["UnitFileState"], props["Type"] = c.unitFileState(name), u.Type
		for i, d := range u.DropIns {
			if i > 0 {
				d = " " + d
			}
			props["DropInPaths"] += d
		}
	}
	if s, err := c.m.Status(name); err == nil {
		props["ActiveState"], props["SubState"], props["Result"] = string(s.State), s.Sub, s.Result
		props["MainPID"], props["ExecMainPID"] = strconv.Itoa(s.PID), strconv.Itoa(s.PID)
		props["ExecMainStatus"], props["NRestarts"] = strconv.Itoa(s.Code), strconv.Itoa(s.Restarts)
		if s.State == Active {
			props["ActiveEnterTimestamp"] = s.Since.Format("Mon 2006-01-02 15:04:05 MST")
		}
	}
	names := c.props
	if len(names) == 0 {
		for n := range props {
			names = append(names, n)
		}
		sort.Strings(names)
	}
	for _, n := range names {
		v, known := props[n]
		switch {
		case !known:
		case c.value:
			c.print("%s", v)
		default:
			c.print("%s=%s", n, v)
		}
	}
}

// list shows the enabled units and those that were started.
func (c *systemctl) list() {
	seen := map[string]bool{}
	row := func(s Status) {
		description := ""
		if u, err := unit.Load(s.Name, c.m.dirs); err == nil {
			description = u.Description
		}
		fmt.Fprintf(&c.out, "%-32s %-12s %-14s %-10s %s\n", s.Name, s.State, s.Sub, c.unitFileState(s.Name), description)
	}
	fmt.Fprintf(&c.out, "%-32s %-12s %-14s %-10s %s\n", "UNIT", "ACTIVE", "SUB", "ENABLED", "DESCRIPTION")
	for _, s := range c.m.List() {
		seen[s.Name] = true
		row(s)
	}
	names, err := unit.Names(c.m.dirs)
	if err != nil {
		c.fail(exitFailed, "%v", err)
		return
	}
	for _, n := range names {
		if !seen[n] {
			row(Status{Name: n, State: Inactive, Sub: "dead"})
		}
	}
}
