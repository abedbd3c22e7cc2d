package lint

import (
	"context"
	"path"
	"strings"

	"github.com/capstan-dev/capstan/runtime/rules"
	"github.com/capstan-dev/capstan/runtime/schema"
)

// Options select what is compared with what.
type Options struct {
	// Module is the directory of a module, or a published module with its version: PATH@VERSION. Default: the current
	// directory.
	Module string
	// Package is the import path of the package with the hooks, or its path in the module. Required.
	Package string
	// Against is a release to compare with: MODULE@VERSION, or MODULE@VERSION/PACKAGE if the package's path has changed.
	// If empty, Lock is used.
	Against string
	// Lock is the path of a lock file to compare with.
	Lock string
	// MayBeFirst allows the lock file to be missing: then nothing is compared.
	MayBeFirst bool
	// Releases are required to check deprecation periods.
	Releases rules.Releases
}

// Report is what a comparison found. Its JSON form is stable.
type Report struct {
	// Package is the import path of the package; Before is what it was compared with.
	Package string `json:"package"`
	Before  string `json:"before"`
	// Missing lists packages that could not be read: changes in their types go unnoticed.
	Missing []string `json:"missing,omitempty"`
	// Findings are never nil.
	Findings []rules.Finding `json:"findings"`

	document *schema.Document
}

// Hooks returns the number of hooks in the package now.
func (r *Report) Hooks() int { return len(r.document.Hooks) }

// WriteLock writes the package's current hooks to a lock file. release may be empty.
func (r *Report) WriteLock(path, release string) error {
	lock := &rules.Lock{Package: r.Package, Release: release, Document: r.document}
	return lock.Write(path)
}

// NoLockError reports a missing lock file.
type NoLockError struct{ Path string }

// Error names the file.
func (e *NoLockError) Error() string { return "there is no lock file " + e.Path }

// Hint says how to write it.
func (e *NoLockError) Hint() string { return "write it: capstan hook lint --update" }

// Run compares the hooks of a package. If a required lock file is missing, the error is a [*NoLockError].
func Run(ctx context.Context, o Options) (*Report, error) {
	report := &Report{Before: o.Lock, Findings: []rules.Finding{}}
	now, err := read(ctx, o.Module, o.Package)
	if err != nil {
		return nil, err
	}
	report.Package, report.Missing, report.document = now.importPath, now.missing, now.document
	if o.Against != "" {
		report.Before = o.Against
		module, pkg := cutRelease(o.Against, o.Package)
		before, err := read(ctx, module, pkg)
		if err != nil {
			return nil, err
		}
		report.Findings = rules.Compare(before.document, now.document, o.Releases)
		return report, nil
	}
	switch lock, err := rules.ReadLock(o.Lock); {
	case rules.IsMissing(err) && o.MayBeFirst:
	case rules.IsMissing(err):
		return nil, &NoLockError{o.Lock}
	case err != nil:
		return nil, err
	default:
		report.Findings = rules.Compare(lock.Document, now.document, o.Releases)
	}
	return report, nil
}

// cutRelease splits MODULE@VERSION/PACKAGE; if PACKAGE is missing, it returns the given one.
func cutRelease(name, pkg string) (module, packagePath string) {
	at := strings.Index(name, "@")
	if at < 0 {
		return name, pkg
	}
	version, rest, ok := strings.Cut(name[at:], "/")
	if !ok {
		return name, pkg
	}
	return name[:at] + version, rest
}

// source is what was read from a package.
type source struct {
	importPath string
	document   *schema.Document
	missing    []string
}

// read reads the hooks of a package of a module.
func read(ctx context.Context, module, pkg string) (source, error) {
	if module == "" {
		module = "."
	}
	m, err := schema.OpenModule(ctx, module)
	if err != nil {
		return source{}, err
	}
	importPath := pkg
	if pkg != m.Path() && !strings.HasPrefix(pkg, m.Path()+"/") {
		importPath = path.Join(m.Path(), pkg)
	}
	reader := &schema.Source{Locate: m.Locate}
	document, err := reader.Read(ctx, importPath)
	return source{importPath, document, reader.Missing()}, err
}
