// Package runtime is the root of the Runtime SDK, which calls and serves Cluster API's runtime hooks. The module
// imports nothing else of Capstan.
//
// Ids such as RX-05 in the documentation are rules of the Runtime SDK's contract; RULES.md explains each of them.
//
// # To call hooks
//
//   - [github.com/capstan-dev/capstan/runtime/hook]: hooks as typed values. A catalog holds the hooks that a process
//     knows, with their versions and facts; [hook.ClusterAPI] is the catalog of Cluster API's own hooks.
//   - [github.com/capstan-dev/capstan/runtime/registry]: the handlers that a management cluster's ExtensionConfigs
//     list.
//   - [github.com/capstan-dev/capstan/runtime/client]: calls handlers. It implements Cluster API's public client
//     interface, so Cluster API's reconcilers can use it unchanged.
//   - [github.com/capstan-dev/capstan/runtime/extensionconfig]: the controller of ExtensionConfigs.
//   - [github.com/capstan-dev/capstan/runtime/record]: a bounded journal of calls for people to read.
//
// # To write an extension
//
//   - [github.com/capstan-dev/capstan/runtime/server]: serves hooks. It turns typed functions into a plain
//     http.Handler.
//   - [github.com/capstan-dev/capstan/runtime/topology]: a ClusterClass's patches, validations and variables as Go
//     types.
//   - [github.com/capstan-dev/capstan/runtime/inplace]: updates Machines in place instead of replacing them.
//   - [github.com/capstan-dev/capstan/runtime/upgradeplan]: plans which Kubernetes versions a Cluster's upgrade goes
//     through.
//   - [github.com/capstan-dev/capstan/runtime/patch]: computes the shortest patch from one document to another.
//   - [github.com/capstan-dev/capstan/runtime/certificate]: a server's own certificate, renewed without interruption.
//   - [github.com/capstan-dev/capstan/runtime/hooktest]: tests with real TLS and the real client, without a cluster.
//   - [github.com/capstan-dev/capstan/runtime/scaffold]: a new project, as written by capstan hook new.
//
// # To write an extension in another language, and to check any extension
//
//   - [github.com/capstan-dev/capstan/runtime/openapi]: the OpenAPI document of a catalog.
//   - [github.com/capstan-dev/capstan/runtime/conformance]: checks a running extension, in whatever language it is
//     written.
//   - [github.com/capstan-dev/capstan/runtime/sample]: requests as Cluster API sends them.
//
// # To publish hooks, and keep promises
//
//   - [github.com/capstan-dev/capstan/runtime/schema]: describes hooks and their types as data, from Go types or from
//     source.
//   - [github.com/capstan-dev/capstan/runtime/rules]: finds changes between two releases that break extensions; lock
//     files; preflight checks.
//
// The ids that the code cites (RX, RC, RS, CL, LH, UH) are rules of the Runtime SDK's contract.
package runtime
