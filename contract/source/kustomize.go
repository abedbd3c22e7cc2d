package source

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomizations are the file names that make a directory a base.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// render renders a base. Each object gets the position of its source file.
func (r Reader) render(dir string) (*File, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	disk := &offline{FileSystem: filesys.MakeFsOnDisk(), root: root}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, root)
	if disk.refused != nil {
		err = disk.refused // kustomize hides this error behind its own
	}
	if err != nil {
		return nil, fmt.Errorf("rendering the kustomize base %s: %w", dir, err)
	}
	into := renderer{Reader: r, dir: dir, sources: map[string]*File{}}
	f := &File{Path: dir, Role: Components}
	for _, made := range rendered.Resources() {
		if err := into.add(f, made); err != nil {
			return nil, fmt.Errorf("reading what %s renders: %w", dir, err)
		}
	}
	return f, nil
}

// renderer collects rendered objects in a file.
type renderer struct {
	Reader
	dir     string
	sources map[string]*File
}

func (r *renderer) add(f *File, made *resource.Resource) error {
	at := r.origin(made)
	if err := made.SetOrigin(nil); err != nil {
		return err
	}
	text, err := made.AsYAML()
	if err != nil {
		return err
	}
	uses := variables(at.File, string(text))
	for i := range uses {
		uses[i].At = at
	}
	objects, err := parse(f, r.substitute(string(text), uses))
	if err != nil {
		return err
	}
	for _, o := range objects {
		o.origin = &Position{File: at.File, Line: at.Line, Column: at.Column}
	}
	f.Variables = append(f.Variables, uses...)
	f.Objects = append(f.Objects, objects...)
	return nil
}

// origin returns where an object comes from, or the base if that is unknown.
func (r *renderer) origin(made *resource.Resource) Position {
	origin, err := made.GetOrigin()
	if err != nil || origin == nil || origin.Path == "" {
		return Position{File: r.dir}
	}
	name := filepath.Join(r.dir, filepath.FromSlash(origin.Path))
	source, read := r.sources[name]
	if !read {
		source, _ = r.openFile(name) // if this fails, the position has no line
		r.sources[name] = source
	}
	if source == nil {
		return Position{File: name}
	}
	at, longest := Position{File: name}, -1
	for _, o := range source.Objects {
		// The base may have added a prefix or suffix.
		if o.Kind() == made.GetKind() && strings.Contains(made.GetName(), o.Name()) && len(o.Name()) > longest {
			at, longest = o.At(), len(o.Name())
		}
	}
	return at
}

// offline is a file system that makes kustomizations record where objects come from and refuses access to the network.
type offline struct {
	filesys.FileSystem
	root    string
	refused error
}

// ReadFile reads a file. It refuses a kustomization with a remote resource.
func (o *offline) ReadFile(path string) ([]byte, error) {
	text, err := o.FileSystem.ReadFile(path)
	if err != nil || !slices.Contains(kustomizations, filepath.Base(path)) {
		return text, err
	}
	var content map[string]any
	if err := yaml.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	for _, field := range []string{"resources", "bases", "components", "crds", "generators", "transformers"} {
		list, _ := content[field].([]any)
		for _, entry := range list {
			if s, ok := entry.(string); ok && isRemote(s) && !o.Exists(filepath.Join(filepath.Dir(path), s)) {
				o.refused = fmt.Errorf("%s names %q, which is not on this machine: copy it next to the base", path, s)
				return nil, o.refused
			}
		}
	}
	if content == nil || filepath.Dir(path) != o.root {
		return text, nil
	}
	content["buildMetadata"] = []string{"originAnnotations"}
	return yaml.Marshal(content)
}

// isRemote reports whether kustomize would fetch an entry from elsewhere.
func isRemote(entry string) bool {
	if strings.Contains(entry, "\n") {
		return false // an inline object
	}
	host, _, below := strings.Cut(entry, "/")
	return strings.Contains(entry, "://") || strings.Contains(entry, "::") || strings.HasPrefix(entry, "git@") ||
		strings.Contains(entry, "?ref=") || below && strings.Contains(strings.Trim(host, "."), ".")
}
