package unit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/unit"
)

// maxFile bounds how much of one unit or environment file is read, in bytes.
const maxFile = 1 << 20

// Dirs are the directories with unit files; the first that has a unit wins. The machine's own /usr/lib/systemd is
// absent on purpose: a local host runs none of its services.
var Dirs = []string{"/etc/systemd/system", "/run/systemd/system"}

// Load reads the unit called name (with suffix) and its drop-ins NAME.d/*.conf from dirs. The error wraps ErrNotFound
// or ErrMasked if one of them applies.
func Load(name string, dirs []string) (*Unit, error) {
	if err := ValidName(name); err != nil {
		return nil, err
	}
	path, data, err := find(name, dirs)
	if err != nil {
		return nil, err
	}
	options, err := deserialize(path, data)
	if err != nil {
		return nil, err
	}
	dropIns, err := findDropIns(name, dirs)
	if err != nil {
		return nil, err
	}
	for _, p := range dropIns {
		data, err := readFile(p)
		if err != nil {
			return nil, fmt.Errorf("reading drop-in %s: %w", p, err)
		}
		more, err := deserialize(p, data)
		if err != nil {
			return nil, err
		}
		options = append(options, more...)
	}
	u, err := parse(name, options)
	if err != nil {
		return nil, err
	}
	u.Path, u.DropIns = path, dropIns
	return u, nil
}

func find(name string, dirs []string) (path string, data []byte, err error) {
	for _, dir := range dirs {
		path = filepath.Join(dir, name)
		if target, err := os.Readlink(path); err == nil && target == os.DevNull {
			return "", nil, fmt.Errorf("%w: %s links to %s", ErrMasked, path, os.DevNull)
		}
		data, err = readFile(path)
		if err == nil {
			return path, data, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", nil, fmt.Errorf("reading unit %s: %w", path, err)
		}
	}
	// These are systemd's own words, which scripts look for.
	return "", nil, fmt.Errorf("Unit %s could not be found: %w", name, ErrNotFound)
}

// findDropIns sorts by file name across all dirs, as systemd does. If dirs have files of the same name, the first dir
// wins.
func findDropIns(name string, dirs []string) ([]string, error) {
	byName := map[string]string{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(filepath.Join(dir, name+".d"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing drop-ins of %s: %w", name, err)
		}
		for _, e := range entries {
			if _, taken := byName[e.Name()]; !taken && strings.HasSuffix(e.Name(), ".conf") {
				byName[e.Name()] = filepath.Join(dir, name+".d", e.Name())
			}
		}
	}
	names := make([]string, 0, len(byName))
	for n := range byName {
		names = append(names, n)
	}
	sort.Strings(names)
	for i, n := range names {
		names[i] = byName[n]
	}
	return names, nil
}

func deserialize(path string, data []byte) ([]option, error) {
	raw, err := systemd.DeserializeOptions(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	out := make([]option, 0, len(raw))
	for _, o := range raw {
		value := strings.ReplaceAll(o.Value, "\\\n", " ")
		out = append(out, option{section: o.Section, name: o.Name, value: strings.TrimSpace(value)})
	}
	return out, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}

// Env returns base, extended by Environment and then the files, in order.
func (u *Unit) Env(base []string) ([]string, error) {
	env := append(append([]string(nil), base...), u.Environment...)
	for _, f := range u.EnvironmentFiles {
		data, err := readFile(f.Path)
		if errors.Is(err, fs.ErrNotExist) && f.Optional {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading EnvironmentFile of %s: %w", u.Name, err)
		}
		env = append(env, parseEnv(string(data))...)
	}
	return env, nil
}

// parseEnv parses lines NAME=VALUE. Comments begin with # or ;. A whole value may be quoted. A backslash at the end of
// a line joins it with the next.
func parseEnv(data string) []string {
	var out []string
	data = strings.ReplaceAll(data, "\\\n", "")
	for _, line := range strings.Split(data, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || !isName(name) {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			inner := value[1 : n-1]
			if value[0] == '"' {
				inner = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(inner)
			}
			value = inner
		}
		out = append(out, name+"="+value)
	}
	return out
}

// Names returns the sorted names of the services with a unit file in dirs.
func Names(dirs []string) ([]string, error) {
	seen := map[string]bool{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing units: %w", err)
		}
		for _, e := range entries {
			if !e.IsDir() && strings.HasSuffix(e.Name(), ".service") && ValidName(e.Name()) == nil {
				seen[e.Name()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}
