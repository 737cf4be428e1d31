from lmtk.cli import program

program()
