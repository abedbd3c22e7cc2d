package clean

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/capstan-dev/capstan/agent/apply"
	"github.com/capstan-dev/capstan/agent/bundle"
	"github.com/capstan-dev/capstan/agent/internal/podroute"
	"github.com/capstan-dev/capstan/internal/proc"
)

const (
	// mostLeftovers bounds how many leftovers the journal and the log list; a report has room for fewer.
	mostLeftovers = 64
	// longestLeftover bounds the length of each leftover, in bytes.
	longestLeftover = 512
)

// Leftovers examines the host and lists what a machine left on it. An empty list means that the host is clean; an error
// means that this is unknown.
func (c *Cleaner) Leftovers(ctx context.Context) ([]string, error) {
	var left []string
	for _, look := range []func(context.Context) ([]string, error){
		c.processes, c.mounts, c.files, c.users, c.devices, c.interfaces, c.routes, c.sockets, c.rules, c.notes, c.compare,
	} {
		found, err := look(ctx)
		if err != nil {
			return nil, fmt.Errorf("looking for leftovers: %w", err)
		}
		left = append(left, found...)
	}
	for _, older := range c.Older {
		if !slices.Contains(left, older) {
			left = append(left, older)
		}
	}
	return bound(left), nil
}

// bound makes leftovers fit into a line of the journal.
func bound(left []string) []string {
	if more := len(left) - mostLeftovers; more > 0 {
		left = append(slices.Clone(left[:mostLeftovers-1]), fmt.Sprintf("and %d more", more+1))
	}
	for i, l := range left {
		left[i] = strings.ToValidUTF8(l[:min(len(l), longestLeftover)], "")
	}
	return left
}

// notes finds out whether notes about the machine's changes are missing. Without these notes, nothing can prove that
// the host is clean, so a person has to look.
func (c *Cleaner) notes(context.Context) ([]string, error) {
	path := c.Journal.Aside()
	if path == "" {
		return nil, nil
	}
	return []string{
		"path " + path + ": the journal was damaged, so users, files, mounts and data on disks may be left; check for " +
			"them, then delete this file",
	}, nil
}

func (c *Cleaner) processes(context.Context) ([]string, error) {
	list, err := proc.Select(c.ofMachine)
	var left []string
	for _, p := range list {
		left = append(left, fmt.Sprintf("process %d %s", p.PID, p.Name))
	}
	return left, err
}

func (c *Cleaner) mounts(context.Context) ([]string, error) {
	list, err := c.machineMounts()
	var left []string
	for _, m := range list {
		left = append(left, "mount "+m.Mountpoint)
	}
	return left, err
}

func (c *Cleaner) files(context.Context) ([]string, error) {
	var left []string
	for _, directory := range c.directories() {
		entries, err := os.ReadDir(directory)
		switch {
		case err != nil && exists(directory):
			left = append(left, "path "+directory)
		case slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "lost+found" }):
			left = append(left, "path "+directory)
		case err == nil && !mountPoint(directory):
			left = append(left, "path "+directory)
		}
	}
	for _, path := range c.undo().Made() {
		if exists(path) && !underRemoved(path) {
			left = append(left, "path "+path)
		}
	}
	changed, err := c.undo().Changed()
	if err != nil {
		return nil, err
	}
	for _, path := range changed {
		if !underRemoved(path) {
			left = append(left, "path "+path+", which is not as it was before")
		}
	}
	for _, dir := range []string{bundle.LinkDir, bundle.CNIDir} {
		links, err := bundle.Links(c.BundlesDir, dir)
		if err != nil {
			return left, err
		}
		for _, path := range links {
			left = append(left, "path "+path)
		}
	}
	return left, nil
}

// underRemoved reports whether a path is one of the directories to delete, or below one. The proof lists such a
// directory itself.
func underRemoved(path string) bool {
	return slices.ContainsFunc(directories, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") })
}

// mountPoint reports whether something is mounted at path itself.
func mountPoint(path string) bool {
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	return err == nil && len(mounts) > 0
}

func (c *Cleaner) users(context.Context) ([]string, error) {
	var left []string
	for _, name := range c.Journal.Notes(apply.KeyUser) {
		if known("/etc/passwd", name) {
			left = append(left, "user "+name)
		}
	}
	for _, name := range c.Journal.Notes(apply.KeyGroup) {
		if known("/etc/group", name) {
			left = append(left, "group "+name)
		}
	}
	return left, nil
}

// devices finds file systems and partition tables that the bootstrap data created.
func (c *Cleaner) devices(ctx context.Context) ([]string, error) {
	made, unknown, err := apply.Made(ctx, c.Journal)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, path := range unknown {
		left = append(left,
			fmt.Sprintf("data on %s, which may not be the machine's disk: if it is, "+
				"wipe it; if it is not, delete %s", path, c.Journal.Dir()))
	}
	for _, path := range made {
		if text, ok := c.output(ctx, "wipefs", "--noheadings", path); !ok || strings.TrimSpace(text) != "" {
			left = append(left, "data on "+path)
		}
	}
	return left, nil
}

func (c *Cleaner) interfaces(context.Context) ([]string, error) {
	names, err := machineInterfaces()
	var left []string
	for _, name := range names {
		left = append(left, "interface "+name)
	}
	return left, err
}

func (c *Cleaner) routes(context.Context) ([]string, error) {
	list, err := podroute.List()
	var left []string
	for _, r := range list {
		left = append(left, fmt.Sprintf("route to %s, of the pod network", r.Dst))
	}
	rules, ruleErr := podroute.Rules()
	for _, r := range rules {
		left = append(left, fmt.Sprintf("routing rule for packets from %s, of the pod network", r.Src))
	}
	return left, errors.Join(err, ruleErr)
}

func (c *Cleaner) sockets(context.Context) ([]string, error) {
	found, err := listening()
	var left []string
	for _, port := range found {
		left = append(left, fmt.Sprintf("socket tcp %d, the port of %s", port, ports[port]))
	}
	return left, err
}

func (c *Cleaner) rules(ctx context.Context) ([]string, error) {
	var left []string
	for _, program := range []string{"iptables", "ip6tables"} {
		if rules, ok := c.output(ctx, program+"-save"); ok && withoutChains(rules) != rules {
			left = append(left, program+" rules of Kubernetes")
		}
	}
	tables, err := c.tables()
	for _, t := range tables {
		left = append(left, "nftables table "+tableName(t))
	}
	return left, err
}
