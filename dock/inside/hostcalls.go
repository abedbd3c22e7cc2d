//go:build linux

package inside

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/network"
	"github.com/capstan-dev/capstan/dock/rootfs"
	"github.com/capstan-dev/capstan/dock/state"
)

// maxHosts bounds the hosts of a dock; memory runs out long before.
const maxHosts = 1000

// ensureHost serves dock.Client.EnsureHost.
func (e *engine) ensureHost(ctx context.Context, spec dock.HostSpec) (dock.Host, error) {
	files, err := checkHost(spec)
	if err != nil {
		return dock.Host{}, err
	}
	for {
		e.mu.Lock()
		h := e.hosts[spec.Name]
		if h == nil {
			return e.createHost(ctx, spec, files) // createHost unlocks e.mu
		}
		if e.want.Hosts[spec.Name].Deleting {
			e.mu.Unlock()
			select { // wait until it is deleted; the next turn of the loop creates it again
			case <-h.ended:
			case <-ctx.Done():
				return dock.Host{}, &dock.Error{
					Code: dock.CodeFailed, Message: "host " + spec.Name + " is still being deleted: try again",
				}
			}
			continue
		}
		want := e.want.Hosts[spec.Name]
		if !want.Run || !slices.Equal(want.Env, spec.Env) {
			want.Run, want.Env = true, spec.Env
			if err := e.change(func(s *state.State) error { s.Hosts[spec.Name] = want; return nil }); err != nil {
				e.mu.Unlock()
				return dock.Host{}, err
			}
		}
		h.mu.Lock()
		h.want.Env, h.files = spec.Env, files
		h.mu.Unlock()
		n := h.ask(wantRunning)
		e.mu.Unlock()
		return e.running(h, h.await(ctx, n))
	}
}

// running describes a host that the caller waited for. It fails if the wait failed, or if another call has stopped or
// deleted the host since.
func (e *engine) running(h *host, err error) (dock.Host, error) {
	if err != nil {
		return dock.Host{}, err
	}
	now := e.describeHost(h)
	if now.State != dock.HostRunning {
		return dock.Host{}, &dock.Error{
			Code: dock.CodeFailed, Message: fmt.Sprintf("host %s was started, but is now %s: try again", h.name, now.State),
		}
	}
	return now, nil
}

// createHost is called with e.mu held and unlocks it. If the first boot fails, nothing of the host remains.
func (e *engine) createHost(ctx context.Context, spec dock.HostSpec, files []rootfs.File) (dock.Host, error) {
	used := map[netip.Addr]bool{}
	for _, h := range e.want.Hosts {
		used[h.Address] = true
	}
	address, err := network.Hosts.Next(e.want.LastHost, used)
	if err == nil && len(used) >= maxHosts {
		err = invalid("a dock has at most %d hosts: delete some", maxHosts)
	}
	if err != nil {
		e.mu.Unlock()
		return dock.Host{}, classify(err)
	}
	want := state.Host{Address: address, Run: true, Env: spec.Env}
	err = e.change(func(s *state.State) error { s.Hosts[spec.Name], s.LastHost = want, address; return nil })
	if err != nil {
		e.mu.Unlock()
		return dock.Host{}, err
	}
	h := e.startHost(spec.Name, want, files)
	e.hosts[spec.Name] = h
	e.mu.Unlock()
	err = h.await(ctx, 1)
	if err == nil {
		return e.running(h, nil)
	}
	if ctx.Err() == nil {
		if undo := e.deleteHost(ctx, spec.Name); undo != nil {
			e.Log.Printf("removing host %s after it could not be created: %v", spec.Name, undo)
		}
	}
	return dock.Host{}, err
}

func checkHost(spec dock.HostSpec) ([]rootfs.File, error) {
	if err := checkName("host", spec.Name); err != nil {
		return nil, err
	}
	var files []rootfs.File
	for _, f := range spec.Files {
		if !filepath.IsAbs(f.Path) || filepath.Clean(f.Path) != f.Path || f.Path == "/" {
			return nil, invalid("host %s: %q is not a clean absolute path of a file", spec.Name, f.Path)
		}
		mode := f.Mode.Perm()
		if mode == 0 {
			mode = 0o600
		}
		files = append(files, rootfs.File{Path: f.Path, Mode: mode, Data: f.Data})
	}
	for _, v := range spec.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return nil, invalid("host %s: %q is not NAME=VALUE", spec.Name, v)
		}
	}
	return files, nil
}

// deleteHost serves dock.Client.DeleteHost.
func (e *engine) deleteHost(ctx context.Context, name string) error {
	if err := checkName("host", name); err != nil {
		return err
	}
	e.mu.Lock()
	h := e.hosts[name]
	if h == nil {
		e.mu.Unlock()
		return nil
	}
	want := e.want.Hosts[name]
	want.Run, want.Deleting = false, true
	err := e.change(func(s *state.State) error { s.Hosts[name] = want; return nil })
	if err != nil && dock.CodeOf(err) != dock.CodeNoSpace { // on a full disk, deleting must go on: it frees space
		e.mu.Unlock()
		return err
	}
	n := h.ask(wantDeleted)
	e.mu.Unlock()
	return h.await(ctx, n)
}

// powerHost serves dock.Client's StartHost, StopHost and RebootHost.
func (e *engine) powerHost(ctx context.Context, name string, g goal) error {
	if err := checkName("host", name); err != nil {
		return err
	}
	e.mu.Lock()
	h := e.hosts[name]
	if h == nil || e.want.Hosts[name].Deleting {
		e.mu.Unlock()
		return notFound("host", name)
	}
	if err := e.recordLocked(name, g != wantStopped); err != nil {
		e.mu.Unlock()
		return err
	}
	n := h.ask(g)
	e.mu.Unlock()
	return h.await(ctx, n)
}

func (e *engine) describeHost(h *host) dock.Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	state, pid := h.state, e.outerPID(h.pid)
	if state == dock.HostRunning && pid == 0 {
		state = dock.HostStopping // it just stopped, and its loop is about to notice
	}
	ids, limits := h.ids, h.limits
	if pid == 0 {
		ids, limits = 0, ""
	}
	return dock.Host{
		IDs: ids, Limits: limits,
		Name: h.name, Address: h.address, State: state, PID: pid, Since: h.since, Restarts: h.restarts, Error: h.lastErr,
		Root: filepath.Join(dock.HostDir(e.Home, h.name), "root"),
	}
}

// status serves dock.Client.Status.
func (e *engine) status() dock.Status {
	s := dock.Status{
		PID: e.outerPID(1), Instance: e.Instance, Rootless: e.Rootless, Started: e.started, BinDir: e.BinDir,
		Gateway: dock.Gateway,
		Hosts:   []dock.Host{}, Balancers: []dock.Balancer{}, Relays: []dock.Relay{}, Units: []dock.UnitStatus{},
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.hosts {
		s.Hosts = append(s.Hosts, e.describeHost(h))
	}
	for name := range e.want.Balancers {
		s.Balancers = append(s.Balancers, e.describeBalancer(name))
	}
	for name := range e.want.Relays {
		if label.MatchString(name) { // skips the relays of balancers
			s.Relays = append(s.Relays, e.describeRelay(name))
		}
	}
	for _, u := range e.units {
		s.Units = append(s.Units, e.describeUnit(u))
	}
	slices.SortFunc(s.Hosts, func(a, b dock.Host) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Balancers, func(a, b dock.Balancer) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Relays, func(a, b dock.Relay) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Units, func(a, b dock.UnitStatus) int { return cmp.Compare(a.Name, b.Name) })
	return s
}
