// Package runtime is the root of the Runtime SDK: everything that is needed to call and to serve the runtime hooks of
// Cluster API, for everybody. The module imports nothing else of Capstan.
//
// Ids such as RX-05 in the documentation are rules of the Runtime SDK's contract: RULES.md says what each of them says.
//
// # To call hooks
//
//   - [github.com/capstan-dev/capstan/runtime/hook]: what a hook is. A hook is a typed value, a catalog holds the hooks
//     that a process knows with their versions and facts, [hook.ClusterAPI] is the catalog of Cluster API's own.
//   - [github.com/capstan-dev/capstan/runtime/registry]: which handlers the ExtensionConfigs of a management cluster
//     have brought.
//   - [github.com/capstan-dev/capstan/runtime/client]: calls them. It implements Cluster API's public client interface,
//     so its reconcilers use it unchanged.
//   - [github.com/capstan-dev/capstan/runtime/extensionconfig]: the controller of ExtensionConfigs.
//   - [github.com/capstan-dev/capstan/runtime/record]: a bounded journal of calls, for people.
//
// # To write an extension
//
//   - [github.com/capstan-dev/capstan/runtime/server]: answers. Typed functions in, a plain http.Handler out.
//   - [github.com/capstan-dev/capstan/runtime/topology]: patches, validations and variables of a ClusterClass as Go
//     types.
//   - [github.com/capstan-dev/capstan/runtime/inplace]: Machines that are updated in place instead of being replaced.
//   - [github.com/capstan-dev/capstan/runtime/upgradeplan]: by which versions of Kubernetes a Cluster is upgraded.
//   - [github.com/capstan-dev/capstan/runtime/patch]: the shortest patch from one document to another.
//   - [github.com/capstan-dev/capstan/runtime/certificate]: a server's own certificate, renewed without a gap.
//   - [github.com/capstan-dev/capstan/runtime/hooktest]: tests with real TLS and the real client, without a cluster.
//   - [github.com/capstan-dev/capstan/runtime/scaffold]: a new project, as capstan hook new writes it.
//
// # To write one in another language, and to check any
//
//   - [github.com/capstan-dev/capstan/runtime/openapi]: the OpenAPI document of a catalog.
//   - [github.com/capstan-dev/capstan/runtime/conformance]: checks a running extension, whatever it is written in.
//   - [github.com/capstan-dev/capstan/runtime/sample]: requests as Cluster API sends them.
//
// # To publish hooks, and keep promises
//
//   - [github.com/capstan-dev/capstan/runtime/schema]: hooks and their types as data, from Go types or from source.
//   - [github.com/capstan-dev/capstan/runtime/rules]: what breaks extensions between two releases; lock files;
//     preflight.
//
// Rules that the code refers to by id (RX, RC, RS, CL, LH, UH) are those of the Runtime SDK's contract.
package runtime
