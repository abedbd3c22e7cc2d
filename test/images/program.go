package images

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Suite is the module below the root of the sources that requires Kubernetes with its tests.
const Suite = "hack/kubetests"

// goRun runs the go command so that it links programs statically.
func goRun(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, said.Bytes())
	}
	return out, nil
}

// Module returns the directory of a module that hack/kubetests requires.
func Module(ctx context.Context, root, name string) (string, error) {
	if _, err := goRun(ctx, filepath.Join(root, Suite), "mod", "download", name); err != nil {
		return "", err
	}
	out, err := goRun(ctx, filepath.Join(root, Suite), "list", "-m", "-f", "{{.Dir}}", name)
	return strings.TrimSpace(string(out)), err
}

// Sources returns the directory with the sources of a module, NAME@VERSION. Their hash, in the format of go.sum, must
// be sum.
func Sources(ctx context.Context, module, sum string) (string, error) {
	temp, err := os.MkdirTemp("", "capstan-module-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	out, err := goRun(ctx, temp, "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var got struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &got); err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, err)
	}
	if got.Sum != sum {
		return "", fmt.Errorf("the sources of %s have the hash %s, not %s", module, got.Sum, sum)
	}
	return got.Dir, nil
}

// build builds a program and returns it.
func (p Program) build(ctx context.Context, root, into string) ([]byte, error) {
	dir := filepath.Join(root, Suite)
	switch {
	case p.Module != "":
		var err error
		if dir, err = Sources(ctx, p.Module, p.Sum); err != nil {
			return nil, err
		}
	case strings.HasPrefix(p.Package, "./"):
		dir = root
	}
	out := filepath.Join(into, "program")
	if _, err := goRun(ctx, dir, "build", "-ldflags=-s -w", "-o", out, p.Package); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}
