package site

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io"

	"github.com/yuin/goldmark/ast"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// blocks renders what is wider than a narrow window, so that it can be scrolled, also
// with a keyboard.
type blocks struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (b blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, b.code)
	r.Register(ast.KindCodeBlock, b.code)
	r.Register(ast.KindHTMLBlock, b.html)
	r.Register(extensionast.KindTable, b.table)
}

// code shows Go with its comments, strings and keywords set apart. Blocks that are
// indented are of documentation comments, and Go mostly.
func (blocks) code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	var content bytes.Buffer
	for i := range node.Lines().Len() {
		line := node.Lines().At(i)
		content.Write(line.Value(source))
	}
	_, _ = w.WriteString(`<pre tabindex="0"><code>`)
	if fenced, ok := node.(*ast.FencedCodeBlock); ok && string(fenced.Language(source)) == "go" {
		highlight(w, content.Bytes())
	} else {
		_, _ = w.Write(util.EscapeHTML(content.Bytes()))
	}
	_, _ = w.WriteString("</code></pre>\n")
	return ast.WalkSkipChildren, nil
}

// highlight writes Go source, whole or in part.
func highlight(w io.Writer, source []byte) {
	file := token.NewFileSet().AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, func(token.Position, string) {}, scanner.ScanComments)
	written := 0
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			break
		}
		class := ""
		switch {
		case kind == token.COMMENT:
			class = "c"
		case kind == token.STRING || kind == token.CHAR:
			class = "s"
		case kind.IsKeyword():
			class = "k"
		default:
			continue
		}
		from := file.Offset(pos)
		_, _ = w.Write(util.EscapeHTML(source[written:from]))
		_, _ = io.WriteString(w, `<span class="`+class+`">`)
		_, _ = w.Write(util.EscapeHTML([]byte(text)))
		_, _ = io.WriteString(w, `</span>`)
		written = from + len(text)
	}
	_, _ = w.Write(util.EscapeHTML(source[written:]))
}

// html leaves out comments, which are for those who write the pages.
func (blocks) html(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	block := node.(*ast.HTMLBlock)
	if !entering || block.HTMLBlockType == ast.HTMLBlockType2 {
		return ast.WalkSkipChildren, nil
	}
	for i := range block.Lines().Len() {
		line := block.Lines().At(i)
		_, _ = w.Write(line.Value(source))
	}
	return ast.WalkContinue, nil
}

// table puts a table into what scrolls: a group, because a page has many and they are no landmarks.
func (blocks) table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<div class=\"table\" role=\"group\" aria-label=\"Table\" tabindex=\"0\"><table>\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}
