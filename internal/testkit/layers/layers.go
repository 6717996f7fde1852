// Package layers orders the files of a package from the top down: each file refers to files
// below it. It reports the references that still point upward, and counts methods.
package layers

import (
	"go/ast"
	"go/token"
	"go/types"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
)

// Order is the order of a package's files with the fewest upward arrows. Arrows counts all
// arrows, and Back lists the upward ones.
type Order struct {
	Files  []string
	Arrows int
	Back   []Arrow
}

// Arrow reports that file From refers to package-level names or methods of file To.
type Arrow struct{ From, To string }

// Of returns the order of a package's files. fileSet contains their positions.
func Of(fileSet *token.FileSet, files []*ast.File) Order { return order(arrowsOf(fileSet, files)) }

// arrowsOf resolves names of the package only. It treats imported packages as empty, so it
// ignores the errors of the type checker.
func arrowsOf(fileSet *token.FileSet, files []*ast.File) map[Arrow]bool {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: empty{}, Error: func(error) {}}
	checked, _ := config.Check("", fileSet, files, info)
	arrows := map[Arrow]bool{}
	for use, object := range info.Uses {
		_, isFunc := object.(*types.Func)
		if object.Pkg() != checked || !object.Pos().IsValid() || !isFunc && object.Parent() != checked.Scope() {
			continue
		}
		arrow := Arrow{filepath.Base(fileSet.Position(use.Pos()).Filename), filepath.Base(fileSet.Position(object.Pos()).Filename)}
		if arrow.From != arrow.To {
			arrows[arrow] = true
		}
	}
	return arrows
}

// empty imports every package without its content.
type empty struct{}

func (empty) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// starts is the number of random orders from which the search begins.
const starts = 60

// order moves single files until no move removes an upward arrow. It begins with several
// orders and returns the best result, because no fast algorithm finds the optimum.
func order(arrows map[Arrow]bool) Order {
	var files []string
	for arrow := range arrows {
		files = append(files, arrow.From, arrow.To)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	best := Order{Files: files, Arrows: len(arrows), Back: back(files, arrows)}
	random := rand.New(rand.NewPCG(1, 2)) // the same orders in each run
	for range starts {
		tried := slices.Clone(files)
		random.Shuffle(len(tried), func(i, j int) { tried[i], tried[j] = tried[j], tried[i] })
		for improve(tried, arrows) {
		}
		if up := back(tried, arrows); len(up) < len(best.Back) {
			best.Files, best.Back = tried, up
		}
	}
	return best
}

// improve moves each file to the position with the fewest upward arrows. It reports whether
// any file moved.
func improve(files []string, arrows map[Arrow]bool) (moved bool) {
	for from := range files {
		file := files[from]
		gain, to := 0, from
		for _, step := range []int{-1, 1} {
			change := 0
			for at := from + step; at >= 0 && at < len(files); at += step {
				up, down := arrows[Arrow{file, files[at]}], arrows[Arrow{files[at], file}]
				if step > 0 {
					up, down = down, up
				}
				change += count(up) - count(down)
				if change > gain {
					gain, to = change, at
				}
			}
		}
		if to != from {
			files = slices.Insert(slices.Delete(files, from, from+1), to, file)
			moved = true
		}
	}
	return moved
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// back returns the upward arrows.
func back(files []string, arrows map[Arrow]bool) (up []Arrow) {
	for i, lower := range files {
		for _, higher := range files[:i] {
			if arrow := (Arrow{lower, higher}); arrows[arrow] {
				up = append(up, arrow)
			}
		}
	}
	return up
}

// Methods returns the number of methods of each type that files define.
func Methods(files []*ast.File) map[string]int {
	methods := map[string]int{}
	for _, file := range files {
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	return methods
}

// receiver returns the name of a receiver's type, without its type parameters.
func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
