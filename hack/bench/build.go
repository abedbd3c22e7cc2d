package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// firstOfPods is a file that was added together with real pods.
const firstOfPods = "kube/run/spec.go"

// coldBuilds builds the bundle from an empty cache, at this commit and at the last one before real pods, and returns
// both figures. Modules are downloaded first.
func coldBuilds(ctx context.Context) (all []figure, err error) {
	out, err := git(ctx, "log", "--diff-filter=A", "--format=%H", "--", firstOfPods)
	if err != nil {
		return nil, err
	}
	commits := strings.Fields(out)
	if len(commits) == 0 {
		return nil, errors.New("the history does not have the commit before real pods: get all of it")
	}
	temp, err := os.MkdirTemp("", "capstan-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	old := filepath.Join(temp, "before")
	if _, err := git(ctx, "worktree", "add", "--detach", old, commits[len(commits)-1]+"^"); err != nil {
		return nil, err
	}
	defer func() {
		_, gone := git(context.WithoutCancel(ctx), "worktree", "remove", "--force", old)
		err = errors.Join(err, gone)
	}()
	now, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for i, tree := range []string{old, now} {
		d, err := coldBuild(ctx, tree, filepath.Join(temp, fmt.Sprint(i)))
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	level := levelOneID
	if os.Getuid() == 0 {
		level = levelRoot
	}
	return []figure{
		newFigure("build", level, took[1].Seconds()),
		newFigure("build-before", level, took[1].Seconds()/took[0].Seconds(),
			fmt.Sprintf("%.0f s now, %.0f s before", took[1].Seconds(), took[0].Seconds())),
	}, nil
}

// coldBuild builds a tree's bundle in an empty directory, with an empty cache.
func coldBuild(ctx context.Context, tree, dir string) (time.Duration, error) {
	fetch := exec.CommandContext(ctx, "go", "list", "-deps", "./...") // unlike go mod download, it doesn't change go.sum
	fetch.Dir, fetch.Env = filepath.Join(tree, "kube"), append(os.Environ(), "GOWORK=off")
	if out, err := fetch.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("fetching modules: %w\n%s", err, out)
	}
	version, err := os.ReadFile(filepath.Join(tree, "kube", "DEFAULT_VERSION"))
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(os.Stderr, "… building the bundle of %s from an empty cache (load average %s)\n", tree, loadAverage())
	build := exec.CommandContext(ctx, filepath.Join(tree, "kube", "build"), strings.TrimSpace(string(version)),
		filepath.Join(dir, "bundles"))
	build.Env = append(os.Environ(), "GOCACHE="+filepath.Join(dir, "cache"))
	began := time.Now()
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building: %w\n%s", err, out)
	}
	took := time.Since(began)
	return took, os.RemoveAll(dir) // a cache of gigabytes
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
