// Package scaffold writes a new extension project that builds, passes its own tests, and can be deployed.
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/validation"
)

//go:embed all:project
var files embed.FS

// SDK is the path of the Runtime SDK's module.
const SDK = "github.com/capstan-dev/capstan/runtime"

// Options of a project. Module must be set.
type Options struct {
	// Module is the path of the project's Go module, for example "example.org/quota".
	Module string
	// Name of the extension, a DNS label, used for its ExtensionConfig, Service and Deployment. Default: the last element
	// of Module.
	Name string
	// SDKVersion is the version of the Runtime SDK to require. Default: "v0.0.0", which needs SDKDirectory.
	SDKVersion string
	// SDKDirectory is a directory with the Runtime SDK to use instead of a published version. Default: none.
	SDKDirectory string
}

var modulePath = regexp.MustCompile(`^[a-zA-Z0-9._~-]+(/[a-zA-Z0-9._~-]+)*$`)

func (o *Options) complete() error {
	if !modulePath.MatchString(o.Module) {
		return fmt.Errorf("the module path %q is not valid: write it like example.org/quota", o.Module)
	}
	if o.Name == "" {
		o.Name = strings.ToLower(path.Base(o.Module))
	}
	if problems := validation.IsDNS1123Label(o.Name); len(problems) > 0 {
		return fmt.Errorf("the name %q is not valid: %s", o.Name, problems[0])
	}
	if o.SDKVersion == "" {
		o.SDKVersion = "v0.0.0"
	}
	if o.SDKDirectory != "" {
		absolute, err := filepath.Abs(o.SDKDirectory)
		if err != nil {
			return fmt.Errorf("finding the Runtime SDK: %w", err)
		}
		if _, err := os.Stat(filepath.Join(absolute, "go.mod")); err != nil {
			return fmt.Errorf("finding the Runtime SDK: %w", err)
		}
		o.SDKDirectory = absolute
	}
	return nil
}

// Write creates the project in a directory that does not exist or is empty, and returns the files that it wrote.
func Write(directory string, options Options) ([]string, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("making a project: %w", err)
	}
	entries, err := os.ReadDir(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("making a project: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("making a project: %s is not empty: name a new directory", directory)
	}
	var written []string
	err = fs.WalkDir(files, "project", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative := strings.TrimSuffix(strings.TrimPrefix(name, "project/"), ".tmpl")
		if err := writeFile(name, filepath.Join(directory, filepath.FromSlash(relative)), options); err != nil {
			return fmt.Errorf("%s: %w", relative, err)
		}
		written = append(written, relative)
		return nil
	})
	if err != nil {
		return written, fmt.Errorf("making a project: %w", err)
	}
	return written, nil
}

func writeFile(name, target string, options Options) error {
	source, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	// YAML and documentation may contain Go's usual template delimiters.
	parsed, err := template.New(path.Base(name)).Delims("[[", "]]").Option("missingkey=error").
		Funcs(template.FuncMap{"sdk": func() string { return SDK }}).Parse(string(source))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(parsed.Execute(file, options), file.Close())
}
