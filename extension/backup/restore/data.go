package restore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/extension/backup/member"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/poll"
	"github.com/capstan-dev/capstan/internal/text"
)

const (
	// stopTimeout limits how long etcd and the API server may take to stop.
	stopTimeout = 90 * time.Second
	// undoTimeout limits the restart of etcd after ctx is done.
	undoTimeout = 30 * time.Second
	// readyTimeout limits one request to an API server.
	readyTimeout = 3 * time.Second
)

// Data puts the backup's data on the first host of the plan. It returns where that host keeps its old data.
func (r *Restore) Data(ctx context.Context) (kept string, err error) {
	directory, remove, err := backup.Scratch("")
	if err != nil {
		return "", err
	}
	defer remove()
	snapshot := filepath.Join(directory, "etcd.db")
	first := r.Plan.First().Name
	steps := []struct {
		name string
		do   func(detail func(string)) error
	}{
		{"snapshot read", func(func(string)) error { return r.options.Store.Fetch(ctx, r.Manifest, snapshot) }},
		{"control plane stopped", func(detail func(string)) error { return r.stop(ctx, detail) }},
		{"data replaced on " + first, func(func(string)) (err error) {
			kept, err = r.replace(ctx, first, snapshot)
			return err
		}},
		{"control plane answers", func(detail func(string)) error { return r.start(ctx, first, detail) }},
	}
	for _, step := range steps {
		if err := r.options.Step(step.name, step.do); err != nil {
			return kept, fmt.Errorf("restoring cluster %s: %w", r.options.Cluster.Name, err)
		}
	}
	return kept, nil
}

// stop stops etcd on all hosts: members left running would form a second cluster of the same name. If it fails, it
// restarts etcd on all of them.
func (r *Restore) stop(ctx context.Context, detail func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var errs []error
	for _, h := range r.Plan.Hosts {
		if h.Member {
			detail("host " + h.Name)
			errs = append(errs, r.options.Hosts.Stop(ctx, h.Name))
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		// An API server that still answers would serve cached data.
		detail("waiting for the API server to stop")
		if err = poll.Until(ctx, func() (bool, error) { return r.ready(ctx) != nil, nil }); err != nil {
			err = fmt.Errorf("waiting for the API server to stop: %w", err)
		}
	}
	if err != nil {
		return errors.Join(err, r.startAll(ctx))
	}
	return nil
}

// startAll restarts etcd on all hosts. It does so even if ctx is done.
func (r *Restore) startAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var errs []error
	for _, h := range r.Plan.Hosts {
		if h.Member {
			errs = append(errs, r.options.Hosts.Start(ctx, h.Name))
		}
	}
	return errors.Join(errs...)
}

// replace replaces the data on a host. If it fails, it restarts etcd on all hosts, unless this host has lost its data.
func (r *Restore) replace(ctx context.Context, host, snapshot string) (kept string, err error) {
	kept, err = r.options.Hosts.Replace(ctx, host, snapshot)
	switch {
	case errors.Is(err, member.ErrWithoutData):
		// If etcd ran now, there would be two clusters of the same name: one with the old data, and an empty one on
		// this host.
		return kept, hint.Errorf("put the old data back on host "+host+", then start over",
			"etcd was left stopped on all control plane hosts: %w", err)
	case err != nil:
		return kept, errors.Join(err, r.startAll(ctx))
	}
	return kept, nil
}

// start starts etcd on a host and waits until the API server answers.
func (r *Restore) start(ctx context.Context, host string, detail func(string)) error {
	if err := r.options.Hosts.Start(ctx, host); err != nil {
		return err
	}
	return poll.Until(ctx, func() (bool, error) {
		err := r.ready(ctx)
		if err != nil {
			detail(text.OneLine(err.Error(), 120))
		}
		return err == nil, nil
	})
}
